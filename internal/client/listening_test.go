package client

import (
	"context"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// received is what a Recv has returned.
type received struct {
	m   datagram.Message
	err error
}

// listener starts a Recv of s and returns when it listens at the doorbell of its
// application itself, at most longest long.
func listener(t *testing.T, c *Client, s *socket.Socket, longest time.Duration) <-chan received {
	t.Helper()
	l := &c.att.listening
	rdstest.Eventually(t, "the dispatcher listens", l.held.Load)
	l.longest = longest
	l.offered.Store(true)
	got := make(chan received, 1)
	go func() {
		m, err := s.Recv(context.Background())
		got <- received{m, err}
	}()
	rdstest.Eventually(t, "the receiver listens", func() bool {
		q := &s.Endpoint.(*Socket).Readers
		q.Mu.Lock()
		defer q.Mu.Unlock()
		return q.Head != nil && q.Head.Ear.Load() != nil
	})
	return got
}

func receivedWithin(t *testing.T, got <-chan received) *received {
	t.Helper()
	select {
	case r := <-got:
		return &r
	case <-rdstest.Background(t).Done():
		t.Fatal("Recv does not return")
		return nil
	}
}

// good wants message n, and releases it.
func (r *received) good(t *testing.T, n uint64) {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := rdstest.Verify(r.m.Data, n); err != nil {
		t.Fatal(err)
	}
	r.m.Release()
}

// forever is longer than a test.
const forever = time.Hour

func listenerLab(t *testing.T) (c *Client, a, b *socket.Socket, svc *daemon.Service) {
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	c = dialed(t, path)
	return c, bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100)), bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 200)), svc
}

// A receiver that listens takes its message from the ring, and what comes while nobody
// listens is found by the dispatcher, or by who looks.
func TestReceiverListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a, b, _ := listenerLab(t)
		for n := range uint64(50) {
			turns := c.att.listening.turns.Load()
			got := listener(t, c, b, forever)
			rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(n, 64))
			receivedWithin(t, got).good(t, n)
			if c.att.listening.turns.Load() == turns {
				t.Fatal("somebody else listened")
			}
			// Nobody may be listening now.
			rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(n, 100))
			if n%2 == 0 {
				q := &b.Endpoint.(*Socket).Queue
				rdstest.Eventually(t, "the dispatcher finds a message that nobody waits for", func() bool { return q.Count.Load() > 0 })
			}
			rdstest.Expect(t, b, string(rdstest.Payload(n, 100)))
		}
	})
}

// Whatever ends a call that waits ends one that listens.
func TestListeningReceiverIsWoken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(c *Client, s *socket.Socket, svc *daemon.Service) error
		want error
	}{
		{"closed", func(_ *Client, s *socket.Socket, _ *daemon.Service) error { return s.Close() }, net.ErrClosed},
		{"deadline", func(_ *Client, s *socket.Socket, _ *daemon.Service) error { return s.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{"later deadline", func(_ *Client, s *socket.Socket, _ *daemon.Service) error {
			return s.SetReadDeadline(time.Now().Add(time.Millisecond))
		}, os.ErrDeadlineExceeded},
		{"client closed", func(c *Client, _ *socket.Socket, _ *daemon.Service) error { return c.Close() }, net.ErrClosed},
		{"daemon lost", func(_ *Client, _ *socket.Socket, svc *daemon.Service) error { return svc.Close() }, datagram.ErrDaemonLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _, b, svc := listenerLab(t)
				got := listener(t, c, b, forever)
				if err := tt.end(c, b, svc); err != nil {
					t.Error(err)
				}
				rdstest.WantErr(t, "Recv", receivedWithin(t, got).err, tt.want)
			})
		})
	}
}

// A receiver that listens without a message gives the place back, and has its message
// all the same.
func TestListenerIsRecalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a, b, _ := listenerLab(t)
		got := listener(t, c, b, lookLast)
		l := &c.att.listening
		rdstest.Eventually(t, "the dispatcher listens again", func() bool { return l.held.Load() && l.others.Load() == 1 })
		rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(1, 64))
		receivedWithin(t, got).good(t, 1)
	})
}

// Who waits while nobody listens has the dispatcher listen, however long it would
// leave the place to receivers.
func TestWaitersAreListenedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a, b, _ := listenerLab(t)
		other := bound(t, c, rdstest.AddrOf(b.LocalAddrPort().Addr(), 201))
		for n := range uint64(50) {
			got := listener(t, c, b, forever)
			heard := make(chan received, 1)
			go func() {
				m, err := other.Recv(rdstest.Background(t)) // which can be canceled, and so does not listen
				heard <- received{m, err}
			}()
			rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(n, 64))
			rdstest.MustSend(t, a, other.LocalAddrPort(), rdstest.Payload(n, 64))
			for _, c := range []<-chan received{got, heard} {
				receivedWithin(t, c).good(t, n)
			}
		}
	})
}

// The dispatcher offers its place to one goroutine for which messages come often.
func TestPlaceIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			others int32
			took   time.Duration
			want   bool
		}{
			{"one that waits, often", 1, 0, true},
			{"one that is busy, often", 0, 0, true},
			{"one, some hundred times a second", 1, briskTime / 2, true},
			{"one, seldom", 1, 2 * briskTime, false},
			{"two", 2, 0, false},
		} {
			var l listening
			l.others.Store(tt.others)
			for range briskTurns - 1 {
				l.judge()
				if l.offered.Load() {
					t.Fatalf("%s: offered too early", tt.name)
				}
			}
			l.since = time.Now().Add(-tt.took)
			if l.judge(); l.offered.Load() != tt.want {
				t.Errorf("%s: offered: %t", tt.name, !tt.want)
			}
		}
		var l listening
		l.offered.Store(true)
		l.others.Store(2)
		if l.judge(); l.offered.Load() {
			t.Error("offered to one of two")
		}
	})
}
