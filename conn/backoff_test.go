package conn

import (
	"testing"
	"time"
)

// attempts are the times at which path 0 is dialed in a span of virtual time. Every attempt fails.
func attempts(c *Conn, from time.Time, span time.Duration) (at []time.Time) {
	for now := from; now.Before(from.Add(span)); now = now.Add(100 * time.Millisecond) {
		c.Tick(now)
		for range dials(c.TakeActions(nil)) {
			at = append(at, now)
			c.DialFailed(now, 0)
		}
	}
	return at
}

// A peer that cannot be reached any more, and for which no message waits, is dialed again
// after a minute at most and half a minute on average; a peer that nobody here talks to is
// not dialed. The first message for the peer is tried at once, and then about twice in
// ReconnectMax.
func TestIdlePathsAreDialedOnceAMinute(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{true, false} {
		o := newOpBench(t)
		o.Need(needed)
		now := epochTime
		o.LinkClosed(now, 1, 0)
		attempts(o.Conn, now, 10*time.Minute) // the back-off grows
		now = now.Add(10 * time.Minute)
		idle := attempts(o.Conn, now, time.Hour)
		now = now.Add(time.Hour)
		least, most := 60, 180
		if !needed {
			least, most = 0, 0
		}
		if n := len(idle); n < least || n > most {
			t.Errorf("needed %v: %d attempts in an hour without a message", needed, n)
		}
		for i := 1; i < len(idle); i++ {
			if d := idle[i].Sub(idle[i-1]); d > time.Minute+time.Second {
				t.Errorf("needed %v: %v between two attempts", needed, d)
			}
		}
		o.acct.Charge(10)
		m := Message{Sport: 4000, Dport: 5000, Account: &o.acct, Payload: make([]byte, 10)}
		if _, err := o.Enqueue(now, 0, &m); err != nil {
			t.Fatal(err)
		}
		if n := len(dials(o.TakeActions(nil))); n != 1 {
			t.Fatalf("needed %v: %d attempts at once for a message", needed, n)
		}
		o.DialFailed(now, 0)
		if n := len(attempts(o.Conn, now, time.Minute)); n < 45 {
			t.Errorf("needed %v: %d attempts for a message in a minute", needed, n)
		}
	}
}
