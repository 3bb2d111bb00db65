package transporttest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// The parts of the contract about links that can stop reading.

// paused is a pair whose B has paused in its first message.
func paused(t *testing.T, e Env) (Pair, transport.Link) {
	t.Helper()
	a, b := e.Dial(t, e.Accepted(t))
	l := b
	if !l.Caps().Pauses {
		t.Skipf("needs links that can pause, which those of %s cannot", e.B.Name())
	}
	p := Pair{RecA: NewRecorder(t), RecB: NewRecorder(t)}
	p.A, p.B = &Sender{Link: a, Rec: p.RecA}, &Sender{Link: b, Rec: p.RecB}
	p.RecB.OnMessage = func(h *wire.Header, _ []byte) {
		if h.Sequence == 0 {
			l.Pause()
		}
	}
	if err := errors.Join(a.Start(p.RecA), b.Start(p.RecB)); err != nil {
		t.Fatal(err)
	}
	p.A.Send(t, 100)
	p.RecB.WaitMessages(t, 1)
	return p, l
}

// resume has l go on reading.
func (r *Recorder) resume(t *testing.T, l transport.Link) {
	t.Helper()
	l.Resume()
	wait(t, r.resumed, "Resumed")
}

func pauseStopsReading(t *testing.T, e Env) {
	p, l := paused(t, e)
	full := false
	var rest []transport.Frame
	for !full { // the peer is the one to wait
		var err error
		if rest, err = p.A.Try([]transport.Frame{p.A.Next(100000)}); err != nil {
			t.Fatal(err)
		}
		full = len(rest) > 0
	}
	for _, on := range []bool{false, false, true} {
		p.RecB.OnResumed = func() bool {
			if n, _ := p.RecB.Received(); n != 1 {
				t.Errorf("%d messages came while the link was paused", n-1)
			}
			return on
		}
		p.RecB.resume(t, l)
	}
	p.A.Write(t, rest...)
	p.RecB.WaitMessages(t, p.A.next)
}

func pausedDrainDelivers(t *testing.T, e Env)       { pausedDrain(t, e, false) }
func pausedDrainOfBothDelivers(t *testing.T, e Env) { pausedDrain(t, e, true) }

// pausedDrain has the ends of one or both sides wait behind what was sent before.
func pausedDrain(t *testing.T, e Env, both bool) {
	p, l := paused(t, e)
	p.A.Send(t, 1000, 100000, 0, 20000)
	p.A.Link.Close(transport.Drain)
	if both {
		l.Close(transport.Drain)
	}
	p.RecB.OnResumed = func() bool {
		if p.RecB.IsClosed() {
			t.Error("Closed while the link was paused")
		}
		return true
	}
	p.RecB.resume(t, l)
	if _, cause := p.RecB.WaitClosed(t); !errors.Is(cause, io.EOF) {
		t.Errorf("Closed(%v)", cause)
	}
	if n, _ := p.RecB.Received(); n != p.A.next {
		t.Errorf("%d of %d messages arrived before Closed", n, p.A.next)
	}
	if acked, _ := p.RecA.WaitClosed(t); acked != p.A.Sent() {
		t.Errorf("%d of %d bytes are acknowledged", acked, p.A.Sent())
	}
}

// A reset does not take back what was acknowledged.
func pausedResetDelivers(t *testing.T, e Env) {
	p, l := paused(t, e)
	p.A.Send(t, 1000, 100000, 0, 20000)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	if e.B.Name() != "loop" { // a loop link acknowledges only what it has delivered
		for deadline := time.Now().Add(Patience); p.A.Link.Acked() != p.A.Sent(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatal("the peer's transport acknowledges nothing while its link is paused")
			}
		}
	}
	p.A.Link.Close(transport.Abort)
	acked, _ := p.RecA.WaitClosed(t)
	l.Resume()
	if _, cause := p.RecB.WaitClosed(t); errors.Is(cause, transport.ErrClosed) {
		t.Errorf("Closed(%v) on the side that did not close", cause)
	}
	if _, n := p.RecB.Received(); n < acked {
		t.Errorf("%d bytes were delivered of %d acknowledged", n, acked)
	}
}

func pausedAborts(t *testing.T, e Env) {
	p, l := paused(t, e)
	p.A.Send(t, 1000)
	l.Close(transport.Abort)
	if _, cause := p.RecB.WaitClosed(t); !errors.Is(cause, transport.ErrClosed) {
		t.Errorf("Closed(%v)", cause)
	}
	p.RecA.WaitClosed(t)
	l.Resume()
	l.Pause()
}
