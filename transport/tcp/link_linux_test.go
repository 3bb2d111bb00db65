//go:build live

package tcp

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// Whatever is called while a link ends, from however many goroutines, finds
// its own socket or none.
func TestEverythingAtOnce(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	accepted := e.Accepted(t)
	for i := range 50 {
		a, b := e.Dial(t, accepted)
		recA, recB := transporttest.NewRecorder(t), transporttest.NewRecorder(t)
		s := transporttest.Sender{Link: a}
		var wg sync.WaitGroup
		wg.Go(func() { _ = a.Start(recA) })
		wg.Go(func() { _ = b.Start(recB) })
		wg.Go(func() {
			for range 20 {
				if rest, err := s.Try([]transport.Frame{s.Next(3000)}); err != nil || len(rest) > 0 {
					return
				}
			}
		})
		var done atomic.Bool
		var look sync.WaitGroup
		look.Go(func() {
			for last := uint64(0); !done.Load(); {
				n := a.Acked()
				if st := a.Stats(); n < last || st.Acked > st.Written {
					t.Errorf("Acked %d after %d, Stats %+v", n, last, st)
				}
				last = n
			}
		})
		for j := range 3 {
			l, mode := []transport.Link{a, b, a}[(i+j)%3], transport.CloseMode((i+j)%2)
			wg.Go(func() { l.Close(mode) })
		}
		wg.Wait()
		b.Close(transport.Abort)
		done.Store(true)
		look.Wait()
	}
	if err := errors.Join(e.A.Close(), e.B.Close()); err != nil {
		t.Error(err)
	}
}

func TestCountersCount(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	a, b := e.Dial(t, e.Accepted(t))
	rec := transporttest.NewRecorder(t)
	if err := a.Start(rec); err != nil {
		t.Fatal(err)
	}
	s := transporttest.Sender{Link: a}
	for {
		rest, err := s.Try([]transport.Frame{s.Next(200000)})
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) > 0 {
			break
		}
	}
	reader := transporttest.NewRecorder(t)
	if err := b.Start(reader); err != nil {
		t.Fatal(err)
	}
	rec.WaitWritable(t)
	reader.WaitMessages(t, 1) // the kernel may have made room before anything was read
	b.Close(transport.Abort)
	rec.WaitClosed(t)
	got := make(map[string]uint64)
	for _, tr := range []transport.Transport{e.A, e.B} {
		for _, c := range tr.Stats() {
			got[c.Name] += c.Value
		}
	}
	if got["tcp_sndbuf_full"] != 1 || got["tcp_write_space_calls"] != 1 || got["tcp_data_ready_calls"] == 0 ||
		got["tcp_accept_errors"] != 0 || got["tcp_setups_crowded"] != 0 || len(got) != 7 {
		t.Errorf("counters: %v", got)
	}
	if e.A.Name() != "tcp" {
		t.Errorf("Name() = %q", e.A.Name())
	}
}
