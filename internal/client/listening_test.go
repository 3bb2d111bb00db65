//go:build !live

package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// A receiver that listens takes its message from the ring, and what comes while nobody
// listens is found by the dispatcher, or by who looks.
func TestReceiverListens(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		c, a, b, _ := listenerLab(t, l)
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

// A receiver that listens without a message gives the place back, and has its message
// all the same.
func TestListenerIsRecalled(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		c, a, b, _ := listenerLab(t, l)
		got := listener(t, c, b, lookLast)
		place := &c.att.listening
		rdstest.Eventually(t, "the dispatcher listens again", func() bool { return place.held.Load() && place.others.Load() == 1 })
		rdstest.MustSend(t, a, b.LocalAddrPort(), rdstest.Payload(1, 64))
		receivedWithin(t, got).good(t, 1)
	})
}

// Who waits while nobody listens has the dispatcher listen, however long it would
// leave the place to receivers.
func TestWaitersAreListenedFor(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		c, a, b, _ := listenerLab(t, l)
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
