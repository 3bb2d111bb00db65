package loop

import (
	"io"
	"math"
	"syscall"

	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

const (
	// capacity bounds what one direction keeps for whoever delivers it.
	capacity = 256 << 10
	// inlineBudget bounds the bytes others appended that a writer delivers
	// before a goroutine takes over, so that its Send returns.
	inlineBudget = 1 << 20
)

// pipe is one direction of a connection. Whoever finds it idle sets busy and
// delivers until nothing is left; all others only append. So a handler that
// writes, directly or through another's handler, never waits for itself.
type pipe struct {
	src, dst *link
	in       frame.Parser // belongs to whoever has set busy
	one      [1][]byte    // belongs to whoever has set busy
	parsed   int          // belongs to whoever has set busy; bytes parsed and not acknowledged, since dst is paused

	mu      lockorder.Mutex[pipe]
	paused  bool   // guarded by mu; set by whoever has set busy: dst reads nothing
	resume  bool   // guarded by mu; dst's handler is to hear Resumed
	started bool   // guarded by mu; dst has a handler
	busy    bool   // guarded by mu
	ended   bool   // guarded by mu; src ends its side after what is pending
	reset   bool   // guarded by mu; src ends its side at once
	dead    bool   // guarded by mu; dst is gone
	both    bool   // guarded by mu; dst has ended its side: src ends when the rest is delivered
	starved bool   // guarded by mu; src is owed a Writable
	pending []byte // guarded by mu; bytes appended and not delivered
	spare   []byte // guarded by mu; the second buffer, when not being delivered
	flight  int    // guarded by mu; bytes taken from pending that are being delivered
}

// write takes as much of bufs as it can.
func (p *pipe) write(bufs [][]byte) (int, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	p.mu.Lock()
	if p.ended || p.reset || p.dead {
		p.mu.Unlock()
		return 0, transport.ErrClosed
	}
	if p.started && !p.busy && !p.paused && total > 0 {
		p.busy = true // idle before, so nothing is pending
		p.src.written.Add(uint64(total))
		p.mu.Unlock()
		p.deliver(bufs)
		p.pump(inlineBudget)
		return total, nil
	}
	room := capacity - p.flight - len(p.pending)
	n := 0
	for _, b := range bufs {
		k := min(len(b), room-n)
		p.pending = append(p.pending, b[:k]...)
		n += k
	}
	p.src.written.Add(uint64(n))
	if n < total {
		p.starved = true
		p.src.t.sendFull.Add(1)
	}
	p.mu.Unlock()
	return n, nil
}

// idle tells whether all that was written is delivered, and there is an end to
// deliver it to. If not, src hears Writable once it is, or the end of its link.
func (p *pipe) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idleLocked()
}

func (p *pipe) idleLocked() bool {
	if p.started && !p.busy && !p.paused && !p.ended && !p.reset && !p.dead { // then nothing is pending
		return true
	}
	p.starved = true
	return false
}

// skip takes all of bufs as written and acknowledged, and delivers nothing. Where
// something has to be delivered before it takes none of them.
func (p *pipe) skip(bufs [][]byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended || p.reset || p.dead:
		return 0, transport.ErrClosed
	case !p.idleLocked():
		return 0, nil
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	p.src.written.Add(uint64(total))
	p.src.acked.Add(uint64(total))
	return total, nil
}

// deliver parses bufs for dst. The caller has set busy.
func (p *pipe) deliver(bufs [][]byte) {
	if !p.dst.acquire() {
		return
	}
	var n int
	var err error
	for _, b := range bufs {
		if err = p.in.Feed(b); err != nil {
			break
		}
		n += len(b)
	}
	p.in.Flush()
	p.parsed += n
	p.acknowledge()
	p.dst.put()
	if err != nil {
		p.dst.end(err, true)
	}
}

// acknowledge acknowledges what was parsed, unless dst is paused: its handler keeps messages
// then that it has not taken and may refuse. The caller has set busy.
func (p *pipe) acknowledge() {
	if p.paused { // only the caller changes paused
		return
	}
	if p.src.acquire() {
		p.src.acked.Add(uint64(p.parsed))
		p.src.put()
	}
	p.parsed = 0
}

// pump delivers what was appended, and the end of the stream. The caller has
// set busy, and has lost it afterwards.
func (p *pipe) pump(budget int) {
	for {
		p.mu.Lock()
		switch {
		case p.reset:
			p.pending, p.busy = nil, false
			p.mu.Unlock()
			p.dst.end(syscall.ECONNRESET, true)
			return
		case p.resume:
			p.resume = false
			p.mu.Unlock()
			p.resumed()
			continue
		case p.paused:
			p.busy = false
			p.mu.Unlock()
			return
		case len(p.pending) == 0:
			p.busy = false
			ended, starved, both := p.ended, p.starved, p.both
			p.starved, p.both = false, false
			p.mu.Unlock()
			switch {
			case ended:
				p.dst.eof()
				if both {
					p.src.end(io.EOF, false)
				}
			case starved:
				p.src.writable()
			}
			return
		}
		if budget <= 0 && p.dst.acquire() {
			p.mu.Unlock()
			p.dst.t.wg.Go(func() { p.pump(math.MaxInt) })
			p.dst.put()
			return
		}
		chunk := p.pending
		p.pending, p.spare, p.flight = p.spare[:0], nil, len(chunk)
		p.mu.Unlock()

		p.one[0] = chunk
		p.deliver(p.one[:])
		budget -= len(chunk)

		p.mu.Lock()
		p.spare, p.flight = chunk[:0], 0
		starved := p.starved
		p.starved = false
		p.mu.Unlock()
		if starved {
			p.src.writable()
		}
	}
}

// start says that dst has a handler now. What came before it is delivered on a
// goroutine, for the caller of Start may hold what the handler needs.
func (p *pipe) start() {
	p.mu.Lock()
	p.started, p.busy = true, true
	p.mu.Unlock()
	p.dst.t.wg.Go(func() { p.pump(math.MaxInt) })
}

// end says that src will write no more; with reset, that what is pending is
// lost. Nothing is delivered here but the news: an idle pipe has nothing else.
func (p *pipe) end(reset bool) {
	p.mu.Lock()
	p.ended = true
	p.reset = p.reset || reset
	idle := p.started && !p.busy
	if idle {
		p.busy = true
	}
	p.mu.Unlock()
	if idle {
		p.pump(inlineBudget)
	}
}

// pause has dst read nothing. The caller has set busy.
func (p *pipe) pause() {
	p.mu.Lock()
	p.paused = true
	p.mu.Unlock()
}

// goOn has dst's handler hear Resumed, from whoever delivers or else on a goroutine.
func (p *pipe) goOn() {
	p.mu.Lock()
	p.resume = true
	idle := p.started && !p.busy
	if idle {
		p.busy = true
	}
	p.mu.Unlock()
	if idle {
		p.dst.t.wg.Go(func() { p.pump(math.MaxInt) })
	}
}

// resumed tells dst's handler that it may go on. The caller has set busy.
func (p *pipe) resumed() {
	if !p.dst.acquire() {
		return
	}
	if p.dst.h.Resumed() {
		p.mu.Lock()
		p.paused = false
		p.mu.Unlock()
		p.acknowledge()
	}
	p.dst.put()
}

func (p *pipe) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// kill says that dst is gone.
func (p *pipe) kill() {
	p.mu.Lock()
	both := p.both
	p.dead, p.both = true, false
	p.pending = nil
	p.mu.Unlock()
	if both {
		p.src.end(io.EOF, false)
	}
}

// outlasts tells whether src, which has ended its side, has something to be delivered
// yet, and has src ended behind it.
func (p *pipe) outlasts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.both = p.ended && !p.reset && !p.dead && (p.busy || p.paused || len(p.pending) > 0)
	return p.both
}

func (p *pipe) isStarted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}
