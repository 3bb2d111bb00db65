package keyguess

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
	"github.com/rds-go/rds/transport/xrc"
)

// Guess is a read of one byte.
type Guess struct {
	Key  uint32
	Addr uint64
}

// Result is what became of guesses.
type Result struct {
	Tried uint64 // guesses that were answered
	Hits  uint64 // guesses that have read memory
	Took  time.Duration
}

// window is how many guesses wait for an answer.
const window = 64

// handler is of a link on which no message matters.
type handler struct {
	transporttest.Simple
	room chan struct{}
	over chan struct{}
}

func (handler) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
}
func (h handler) Writable() { wake(h.room) }

func (h handler) Closed(error, uint64) { close(h.over) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run tries what next returns on memory of the program that has a port, in a window, until
// ctx ends. It fails if the host ends the
// link or answers out of turn.
func Run(ctx context.Context, port uint16, from netip.Addr, to netip.AddrPort, next func() Guess) (r Result, err error) {
	t, err := xrc.New(xrc.Options{Config: iwarp.Config{EventLoops: 1}, Port: port, Operations: window})
	if err != nil {
		return r, err
	}
	defer t.Close()
	l, err := t.Dial(ctx, from, to.Addr(), 0)
	if err != nil {
		return r, err
	}
	h := handler{room: make(chan struct{}, 1), over: make(chan struct{})}
	if err := l.Start(h); err != nil {
		return r, err
	}
	var answered, hits, unordered atomic.Uint64
	ops := make([]transport.Operation, 4*window)
	done := func(op *transport.Operation, s transport.OpStatus) {
		if *op.Owner.(*uint64) != answered.Load() {
			unordered.Add(1)
		}
		switch s {
		case transport.OpSuccess:
			hits.Add(1)
		case transport.OpLost, transport.OpFailed:
			return // the link has ended
		}
		answered.Add(1)
		wake(h.room)
	}
	numbers := make([]uint64, len(ops))
	list := make([]*transport.Operation, 1)
	frame := []transport.Frame{{Ops: list, Port: to.Port()}}
	began := time.Now()
	for n := uint64(0); ctx.Err() == nil; {
		if n-answered.Load() < window {
			g := next()
			at := n % uint64(len(ops))
			numbers[at] = n
			ops[at] = transport.Operation{Kind: transport.OpRead, Local: [][]byte{make([]byte, 1)}, Key: g.Key, Addr: g.Addr, Owner: &numbers[at], Done: done}
			list[0] = &ops[at]
			taken, err := l.Send(frame)
			if err != nil {
				return r, err
			}
			if taken.Frames > 0 {
				n++
				continue
			}
		}
		select {
		case <-h.room:
		case <-h.over:
			return r, fmt.Errorf("the link has ended after %d guesses", answered.Load())
		case <-ctx.Done():
		}
	}
	r = Result{Tried: answered.Load(), Hits: hits.Load(), Took: time.Since(began)}
	if n := unordered.Load(); n > 0 {
		err = fmt.Errorf("%d of %d answers came out of turn", n, r.Tried)
	}
	return r, err
}
