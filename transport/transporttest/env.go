package transporttest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
)

// Env is what the contract runs on: two transports that reach each other.
type Env struct {
	A, B         transport.Transport
	AddrA, AddrB netip.Addr // A dials from AddrA, B listens on AddrB
	Nobody       netip.Addr // nobody listens here
}

// Pair is a started link seen from both ends.
type Pair struct {
	A, B       *Sender // A's end, B's end
	RecA, RecB *Recorder
}

// Accepted listens and returns where the links appear.
func (e Env) Accepted(t testing.TB) <-chan transport.Link {
	t.Helper()
	links := make(chan transport.Link, 256)
	if err := e.B.Listen(e.AddrB, func(l transport.Link) { links <- l }); err != nil {
		t.Fatal(err)
	}
	return links
}

// Dial makes a link, not started at either end. B's end is the next of accepted.
func (e Env) Dial(t testing.TB, accepted <-chan transport.Link) (a, b transport.Link) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	a, err := e.A.Dial(ctx, e.AddrA, e.AddrB, 0)
	if err != nil {
		t.Fatal(err)
	}
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case b = <-accepted:
	case <-timeout.C:
		t.Fatal("no link accepted in time")
	}
	return a, b
}

// Start starts both ends of a link.
func Start(t testing.TB, a, b transport.Link) Pair {
	t.Helper()
	p := Pair{RecA: NewRecorder(t), RecB: NewRecorder(t)}
	p.A, p.B = &Sender{Link: a, Rec: p.RecA}, &Sender{Link: b, Rec: p.RecB}
	if err := a.Start(p.RecA); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(p.RecB); err != nil {
		t.Fatal(err)
	}
	return p
}

// Connect listens, makes a link and starts both ends.
func (e Env) Connect(t testing.TB) Pair {
	t.Helper()
	return e.Again(t, e.Accepted(t))
}

// Again makes one more link and starts both ends.
func (e Env) Again(t testing.TB, accepted <-chan transport.Link) Pair {
	t.Helper()
	a, b := e.Dial(t, accepted)
	return Start(t, a, b)
}
