package loop

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

func TestDrainTimesOutInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv()
		a, b := e.Dial(t, e.Accepted(t))
		rec := transporttest.NewRecorder(t)
		if err := a.Start(rec); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		a.Close(transport.Drain) // b is not started and never answers
		if _, cause := rec.WaitClosed(t); !errors.Is(cause, transport.ErrDrainTimeout) {
			t.Errorf("Closed(%v)", cause)
		}
		if d := time.Since(start); d != drainTimeout {
			t.Errorf("after %v", d)
		}
		b.Close(transport.Abort)
		_ = e.A.Close()
		_ = e.B.Close()
	})
}

// Messages of a started link arrive before the Send that carries them returns.
func TestDeliversInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv()
		p := e.Connect(t)
		synctest.Wait()
		for i := range uint64(100) {
			p.A.Send(t, int(i))
			if n, _ := p.RecB.Received(); n != i+1 {
				t.Fatalf("%d messages after the %dth Send", n, i+1)
			}
		}
		_ = e.A.Close()
		_ = e.B.Close()
	})
}

func TestListenTwice(t *testing.T) {
	e := newEnv()
	e.Accepted(t)
	if e.A.Listen(e.AddrB, func(transport.Link) {}) == nil {
		t.Error("two listeners on one address")
	}
	_ = e.A.Close()
	_ = e.B.Close()
}

func TestGarbageEndsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv()
		p := e.Connect(t)
		p.A.Send(t, 5)
		garbage := make([]byte, 100)
		for i := range garbage {
			garbage[i] = 0xff
		}
		if _, err := p.A.Link.Send([]transport.Frame{{Head: garbage}}); err != nil {
			t.Fatal(err)
		}
		if _, cause := p.RecB.WaitClosed(t); !errors.Is(cause, transport.ErrTooLong) {
			t.Errorf("Closed(%v)", cause)
		}
		p.RecA.WaitClosed(t)
		if n, _ := p.RecB.Received(); n != 1 {
			t.Errorf("%d messages arrived", n)
		}
		_ = e.A.Close()
		_ = e.B.Close()
	})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv()
		a, b := e.Dial(t, e.Accepted(t))
		if err := errors.Join(a.Start(sink{}), b.Start(sink{})); err != nil {
			t.Fatal(err)
		}
		settle(a)
		frames := []transport.Frame{(&transporttest.Sender{}).Next(1000)}
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := a.Send(frames); err != nil {
				t.Fatal(err)
			}
		}); n > 0.5 {
			t.Errorf("%v allocations per message", n)
		}
		_ = e.A.Close()
		_ = e.B.Close()
	})
}
