package transporttest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// sizes has the lengths at which something changes in one transport or other.
var sizes = []int{
	0, 1, 47, 48, 49, 511, 512, 513, 4096, 0, 8192, 16383, 16384, 65535, 65536, 65537,
	100000, 262144, 300000, 1<<20 - 1, 0, 1 << 20, 3, 1 << 20, 1 << 20, 0,
}

// part is one of the things that the contract says.
type part struct {
	name string
	run  func(*testing.T, Env)
}

var contract = []part{
	{"DeliversBothWays", deliversBothWays},
	{"TakesManyFrames", takesManyFrames},
	{"RepliesFromHandler", repliesFromHandler},
	{"WritableFollowsPartialWrite", writableFollowsPartialWrite},
	{"AckedReachesWritten", ackedReachesWritten},
	{"DrainDeliversEverything", drainDeliversEverything},
	{"DrainGoesOnReceiving", drainGoesOnReceiving},
	{"AbortEndsBothSides", abortEndsBothSides},
	{"AbortHardensDrain", abortHardensDrain},
	{"CloseFromHandler", closeFromHandler},
	{"CloseBeforeStart", closeBeforeStart},
	{"StartsOnce", startsOnce},
	{"DialRefused", dialRefused},
	{"DialCanceled", dialCanceled},
	{"CloseEndsTransport", closeEndsTransport},
	{"ManyLinks", manyLinks},
	{"PauseStopsReading", pauseStopsReading},
	{"PausedDrainDelivers", pausedDrainDelivers},
	{"PausedDrainOfBothDelivers", pausedDrainOfBothDelivers},
	{"PausedResetDelivers", pausedResetDelivers},
	{"PausedAborts", pausedAborts},
}

// Run runs the contract. newEnv makes fresh transports for each part; closing
// them is Run's work.
func Run(t *testing.T, newEnv func(t *testing.T) Env) {
	for _, p := range contract {
		t.Run(p.name, func(t *testing.T) { p.keeps(t, newEnv) })
	}
}

// Bubble is Run with each part in a bubble of testing/synctest, for transports in memory.
func Bubble(t *testing.T, newEnv func(t *testing.T) Env) {
	for _, p := range contract {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { p.keeps(t, newEnv) })
		})
	}
}

func (p part) keeps(t *testing.T, newEnv func(t *testing.T) Env) {
	e := newEnv(t)
	t.Cleanup(func() {
		if err := errors.Join(e.A.Close(), e.B.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	p.run(t, e)
}

func deliversBothWays(t *testing.T, e Env) {
	p := e.Connect(t)
	var wg sync.WaitGroup
	wg.Go(func() { p.A.Send(t, sizes...) })
	wg.Go(func() {
		back := slices.Clone(sizes)
		slices.Reverse(back)
		p.B.Send(t, back...)
	})
	wg.Wait()
	p.RecA.WaitMessages(t, uint64(len(sizes)))
	p.RecB.WaitMessages(t, uint64(len(sizes)))
	if a, b := p.A.Link, p.B.Link; a.LocalAddr() != b.RemoteAddr() || a.RemoteAddr() != b.LocalAddr() ||
		a.LocalAddr().Addr() != e.AddrA || b.LocalAddr().Addr() != e.AddrB {
		t.Errorf("addresses: %v to %v, and %v to %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
}

func takesManyFrames(t *testing.T, e Env) {
	p := e.Connect(t)
	var frames []transport.Frame
	const n = transport.MaxSlices // each has two slices
	for range n {
		frames = append(frames, p.A.Next(100))
	}
	p.A.Write(t, frames...)
	if n, err := p.A.Link.Send(nil); n != (transport.Taken{}) || err != nil {
		t.Errorf("Send of nothing: %+v, %v", n, err)
	}
	p.RecB.WaitMessages(t, n)
	if s := p.A.Link.Stats(); s.Written != n*(100+wire.HeaderSize) {
		t.Errorf("Stats().Written = %d", s.Written)
	}
}

// A handler may write to its own link, and the answer may provoke the next
// write, without limit to the depth.
func repliesFromHandler(t *testing.T, e Env) {
	a, b := e.Dial(t, e.Accepted(t))
	recA, recB := NewRecorder(t), NewRecorder(t)
	sa, sb := &Sender{Link: a, Rec: recA}, &Sender{Link: b, Rec: recB}
	const rounds = 2000
	recB.OnMessage = func(h *wire.Header, _ []byte) { sb.Send(t, int(h.Length)) }
	// The first message comes from this goroutine, the others from whoever
	// calls the handler, perhaps before the first Send has returned: whoever
	// finds the sender idle sends what is due.
	var due atomic.Int64
	var busy atomic.Bool
	send := func() {
		due.Add(1)
		for due.Load() > 0 && busy.CompareAndSwap(false, true) {
			for due.Load() > 0 {
				due.Add(-1)
				sa.Send(t, int(sa.next%300))
			}
			busy.Store(false)
		}
	}
	recA.OnEnd = func() {
		if n, _ := recA.Received(); n < rounds {
			send()
		}
	}
	if err := errors.Join(a.Start(recA), b.Start(recB)); err != nil {
		t.Fatal(err)
	}
	send()
	recA.WaitMessages(t, rounds)
}

func writableFollowsPartialWrite(t *testing.T, e Env) {
	a, b := e.Dial(t, e.Accepted(t))
	recA, recB := NewRecorder(t), NewRecorder(t)
	sa := &Sender{Link: a, Rec: recA}
	if err := a.Start(recA); err != nil {
		t.Fatal(err)
	}
	// The other end takes nothing yet, so the link fills up.
	const size = 100000
	var rest []transport.Frame
	fill := func() bool {
		before := sa.Sent()
		for {
			if len(rest) == 0 {
				rest = []transport.Frame{sa.Next(size), sa.Next(0), sa.Next(size)}
			}
			var err error
			if rest, err = sa.Try(rest); err != nil {
				t.Fatal(err)
			}
			if len(rest) > 0 {
				return sa.Sent() > before
			}
		}
	}
	fill()
	for recA.MoreWritable() { // a kernel on the way may make room by itself
		recA.WaitWritable(t)
		if !fill() {
			t.Error("Writable before there was room")
		}
	}
	if err := b.Start(recB); err != nil {
		t.Fatal(err)
	}
	recA.WaitWritable(t)
	sa.Write(t, rest...)
	recB.WaitMessages(t, sa.next)
	sa.Send(t, 1)
	recB.WaitMessages(t, sa.next)
	if recA.MoreWritable() {
		t.Error("Writable more often than asked for")
	}
}

func ackedReachesWritten(t *testing.T, e Env) {
	p := e.Connect(t)
	last := uint64(0)
	look := func() uint64 {
		written := p.A.Sent()
		n := p.A.Link.Acked()
		if n < last {
			t.Errorf("Acked went back from %d to %d", last, n)
		}
		if n > written {
			t.Errorf("Acked = %d of %d written", n, written)
		}
		last = n
		return n
	}
	for _, size := range sizes {
		p.A.Send(t, size)
		look()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); look() != p.A.Sent(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("Acked stays at %d of %d", last, p.A.Sent())
		}
	}
	p.A.Link.Close(transport.Drain)
	if acked, _ := p.RecA.WaitClosed(t); acked != p.A.Sent() || p.A.Link.Acked() != acked {
		t.Errorf("Closed with %d acked, then Acked is %d, of %d", acked, p.A.Link.Acked(), p.A.Sent())
	}
}

func manyLinks(t *testing.T, e Env) {
	accepted := e.Accepted(t)
	var wg sync.WaitGroup
	for i := range 40 {
		a, b := e.Dial(t, accepted)
		p := Start(t, a, b)
		p.A.Send(t, 0)
		p.RecB.WaitMessages(t, 1) // of links that bring nothing there may be few
		wg.Go(func() {
			for j := range 49 {
				p.A.Send(t, (i*j*37)%5000)
			}
		})
		wg.Go(func() {
			for j := range 50 {
				p.B.Send(t, (i*j*41)%5000)
			}
			p.RecA.WaitMessages(t, 50)
			p.RecB.WaitMessages(t, 50)
			if i%2 == 0 {
				p.A.Link.Close(transport.Drain)
				p.RecA.WaitClosed(t)
				p.RecB.WaitClosed(t)
			}
		})
	}
	wg.Wait()
}
