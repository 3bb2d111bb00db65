package loop

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEnv() transporttest.Env {
	n := NewNetwork()
	return transporttest.Env{
		A: n.Transport(), B: n.Transport(),
		AddrA:  netip.MustParseAddr("10.0.0.1"),
		AddrB:  netip.MustParseAddr("10.0.0.2"),
		Nobody: netip.MustParseAddr("10.0.0.3"),
	}
}

func TestContract(t *testing.T) {
	transporttest.Bubble(t, func(*testing.T) transporttest.Env { return newEnv() })
}

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
