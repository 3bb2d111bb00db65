package transporttest

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// The parts of the contract about how links and transports end, and how links
// do not come to be.

func drainDeliversEverything(t *testing.T, e Env) {
	p := e.Connect(t)
	p.A.Send(t, sizes...)
	p.A.Link.Close(transport.Drain)
	if n, err := p.A.Link.Send([]transport.Frame{p.A.Next(1)}); n != (transport.Taken{}) || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Send after Close: %+v, %v", n, err)
	}
	if _, cause := p.RecB.WaitClosed(t); !errors.Is(cause, io.EOF) {
		t.Errorf("the peer heard %v", cause)
	}
	if n, _ := p.RecB.Received(); n != uint64(len(sizes)) {
		t.Errorf("%d of %d messages arrived before Closed", n, len(sizes))
	}
	if acked, cause := p.RecA.WaitClosed(t); !errors.Is(cause, io.EOF) || acked != p.A.Sent() {
		t.Errorf("Closed(%v, %d), expected EOF and %d", cause, acked, p.A.Sent())
	}
}

func drainGoesOnReceiving(t *testing.T, e Env) {
	a, b := e.Dial(t, e.Accepted(t))
	// B answers a message that it reads when A has already ended its side, but
	// before it can have seen that.
	recA, recB := NewRecorder(t), NewRecorder(t)
	if err := a.Start(recA); err != nil {
		t.Fatal(err)
	}
	sa, sb := &Sender{Link: a, Rec: recA}, &Sender{Link: b, Rec: recB}
	sa.Send(t, 5)
	recB.OnMessage = func(*wire.Header, []byte) { a.Close(transport.Drain); sb.Send(t, 7, 70, 700) }
	if err := b.Start(recB); err != nil {
		t.Fatal(err)
	}
	recA.WaitMessages(t, 3)
	recA.WaitClosed(t)
	recB.WaitClosed(t)
}

func abortEndsBothSides(t *testing.T, e Env) {
	p := e.Connect(t)
	p.A.Send(t, 100)
	p.RecB.WaitMessages(t, 1)
	p.A.Link.Close(transport.Abort)
	p.A.Link.Close(transport.Abort)
	if _, cause := p.RecA.WaitClosed(t); !errors.Is(cause, transport.ErrClosed) {
		t.Errorf("Closed(%v) after Close", cause)
	}
	if _, cause := p.RecB.WaitClosed(t); errors.Is(cause, transport.ErrClosed) {
		t.Errorf("Closed(%v) on the side that did not close", cause)
	}
	if _, err := p.B.Link.Send([]transport.Frame{p.B.Next(1)}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Send after Closed: %v", err)
	}
	p.B.Link.Close(transport.Drain)
	p.B.Link.Close(transport.Abort)
	p.B.Link.Stats()
}

func abortHardensDrain(t *testing.T, e Env) {
	a, b := e.Dial(t, e.Accepted(t))
	rec := NewRecorder(t)
	if err := a.Start(rec); err != nil {
		t.Fatal(err)
	}
	// What was written ends before our direction does, and b, not started, takes only so
	// much of it: it can't answer the end.
	sa := &Sender{Link: a, Rec: rec}
	if _, err := sa.Try([]transport.Frame{sa.Next(100_000), sa.Next(100_000)}); err != nil {
		t.Fatal(err)
	}
	a.Close(transport.Drain)
	if rec.IsClosed() {
		t.Error("Closed before the peer ended its side")
	}
	a.Close(transport.Abort)
	if _, cause := rec.WaitClosed(t); !errors.Is(cause, transport.ErrClosed) {
		t.Errorf("Closed(%v)", cause)
	}
	b.Close(transport.Drain)
}

func closeFromHandler(t *testing.T, e Env) {
	accepted := e.Accepted(t)
	for _, mode := range []transport.CloseMode{transport.Drain, transport.Abort} {
		a, b := e.Dial(t, accepted)
		recA, recB := NewRecorder(t), NewRecorder(t)
		recB.OnMessage = func(*wire.Header, []byte) { b.Close(mode) }
		if err := errors.Join(a.Start(recA), b.Start(recB)); err != nil {
			t.Fatal(err)
		}
		(&Sender{Link: a, Rec: recA}).Send(t, 1)
		recA.WaitClosed(t)
		recB.WaitClosed(t)
	}
}

func closeBeforeStart(t *testing.T, e Env) {
	a, b := e.Dial(t, e.Accepted(t))
	rec := NewRecorder(t)
	if err := b.Start(rec); err != nil {
		t.Fatal(err)
	}
	a.Close(transport.Drain)
	a.Close(transport.Abort)
	rec.WaitClosed(t)
	if err := a.Start(NewRecorder(t)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	if _, err := a.Send([]transport.Frame{new(Sender).Next(1)}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	if a.Acked() != 0 {
		t.Errorf("Acked = %d", a.Acked())
	}
}

func startsOnce(t *testing.T, e Env) {
	p := e.Connect(t)
	if p.A.Link.Start(NewRecorder(t)) == nil {
		t.Error("a link started twice")
	}
	p.A.Send(t, 1)
	p.RecB.WaitMessages(t, 1)
}

func dialRefused(t *testing.T, e Env) {
	l, err := e.A.Dial(t.Context(), e.AddrA, e.Nobody, 0)
	if !errors.Is(err, syscall.ECONNREFUSED) || l != nil {
		t.Errorf("Dial where nobody listens: %v, %v", l, err)
	}
}

func dialCanceled(t *testing.T, e Env) {
	e.Accepted(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := e.A.Dial(ctx, e.AddrA, e.AddrB, 0); !errors.Is(err, context.Canceled) || l != nil {
		t.Errorf("Dial with a canceled context: %v, %v", l, err)
	}
}

func closeEndsTransport(t *testing.T, e Env) {
	accepted := e.Accepted(t)
	a, b := e.Dial(t, accepted)
	p := Start(t, a, b)
	p.A.Send(t, 10)
	p.RecB.WaitMessages(t, 1)
	_, unstarted := e.Dial(t, accepted)
	if err := e.B.Close(); err != nil {
		t.Fatal(err)
	}
	if !p.RecB.IsClosed() {
		t.Error("Close of the transport returned before Closed")
	}
	if unstarted.Start(NewRecorder(t)) == nil {
		t.Error("a link started after its transport was closed")
	}
	p.RecA.WaitClosed(t)
	if _, err := e.A.Dial(t.Context(), e.AddrA, e.AddrB, 0); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial of a closed listener: %v", err)
	}
	if e.B.Listen(e.AddrB, func(transport.Link) {}) == nil {
		t.Error("a closed transport listens")
	}
	if _, err := e.B.Dial(t.Context(), e.AddrB, e.AddrA, 0); err == nil {
		t.Error("a closed transport dials")
	}
	if err := e.B.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
