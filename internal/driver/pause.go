package driver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/wire"
)

// A message for which the sink says Waits stops the link that brought it: TCP has
// acknowledged it, and perhaps what follows. The receiver keeps the message, and what the
// link had read behind it, until the sink takes it; the kernel and the peer keep the rest.
// All other messages of that path wait as long: for other sockets, maps, probes.

// pause is what a receiver needs to stop its link and to go on. But for what is atomic it
// belongs to who calls the handler.
type pause struct {
	on     bool // the link is paused
	parked fifo.Queue[parked]
	bytes  atomic.Int64 // payload of parked: other goroutines read it
	slab   *buf.Buf     // collects small payloads of parked messages
	used   int          // octets of slab in use

	over     atomic.Bool // the link has ended: what is parked is left to finisher
	finisher Worker      // set before over
	once     sync.Once   // for closed
}

// parked is a message that came while its link was being paused. Small payloads are
// together in slabs.
type parked struct {
	h        wire.Header
	buf      *buf.Buf // nil for an empty payload
	off      int      // offset of the payload in buf
	owned    bool     // buf holds nothing but the payload, and passes to the sink as it is
	accepted bool     // the sequence rule has been applied
}

const (
	parkInline = 8 << 10  // longer payloads of parked messages have a buffer of their own
	parkSlab   = 64 << 10 // size of slabs
)

// Paused tells whether the link is paused.
func (r *Receiver) Paused() bool { return r.pause.on }

// Parked is how many octets of payload wait in a paused link, for any goroutine.
func (r *Receiver) Parked() int64 { return r.pause.bytes.Load() }

// park keeps a message for later, and stops the link.
func (r *Receiver) park(h *wire.Header, payload []byte, owned *buf.Buf, accepted bool) {
	p := &r.pause
	it := parked{h: *h, buf: owned, owned: owned != nil, accepted: accepted}
	switch n := len(payload); {
	case owned != nil || n == 0:
	case n > parkInline:
		it.buf, it.owned = r.d.pool.Get(n), true
		copy(it.buf.B, payload)
	default:
		if p.slab == nil || p.used+n > len(p.slab.B) {
			p.dropSlab()
			p.slab = r.d.pool.Get(parkSlab)
		}
		it.buf, it.off = p.slab, p.used
		p.slab.Retain(1)
		p.used += copy(p.slab.B[p.used:], payload)
	}
	p.bytes.Add(int64(len(payload)))
	p.parked.Push(it)
	if !p.on {
		p.on = true
		r.link.Pause()
		r.told(true)
	}
}

func (p *pause) dropSlab() {
	if p.slab != nil {
		p.slab.Release()
		p.slab, p.used = nil, 0
	}
}

// told tells the core that the link is not read for now, or is again.
func (r *Receiver) told(on bool) {
	r.d.mu.Lock()
	r.d.Core.Paused(r.path, r.id, on)
	r.d.release(nil)
}

// Wake has what waits tried again. Any goroutine may call it.
func (r *Receiver) Wake() {
	if r.pause.over.Load() {
		r.pause.finisher.Wake()
		return
	}
	r.link.Resume()
}

// resumed takes what is parked, as far as the sink does.
func (r *Receiver) resumed() (read bool) {
	p := &r.pause
	if !p.on {
		return true
	}
	r.sink.Retry()
	r.begin()
	for p.parked.Len() > 0 {
		it := &p.parked.All()[0]
		var payload []byte
		var owned *buf.Buf
		if it.buf != nil {
			payload = it.buf.B[it.off : it.off+int(it.h.Length)]
		}
		if it.owned {
			owned = it.buf
		}
		if !r.message(&it.h, payload, owned, it.accepted) {
			it.accepted = true
			r.end()
			return false
		}
		if it.buf != nil && !it.owned {
			it.buf.Release()
		}
		p.bytes.Add(-int64(len(payload)))
		p.parked.Drop(1)
	}
	r.end()
	p.parked.Shrink(0)
	p.dropSlab()
	p.on = false
	r.sink.Reading()
	r.told(false)
	return true
}

// finish takes what is parked after the link's end, and then reports the end: what
// comes on the path's next link comes after it.
func (r *Receiver) finish(cause error, acked uint64) {
	p := &r.pause
	p.finisher = r.d.rt.Worker(func() (time.Duration, bool) {
		if r.resumed() { // woken at the latest when the socket or the owner is closed
			p.once.Do(func() {
				p.finisher.Stop()
				r.closed(cause, acked)
			})
		}
		return 0, false
	})
	p.over.Store(true)
	p.finisher.Wake()
}
