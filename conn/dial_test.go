package conn

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// Of 8 paths the next is dialed only when the peer's RDS has taken the last: a Linux 6.1
// peer gives inbound links to its paths in the order of their arrival. No timer, no new
// message and no answer on path 0 dials it sooner; proof does, and so does ProofTimeout
// with a peer that says nothing.
func TestNextPathIsDialedAfterProofOfTheLast(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		o := &opBench{Conn: newConn(t, Config{Paths: MaxPaths}), t: t, link: 1}
		o.acct.SetLimit(1 << 30)
		up(t, o.Conn, 1)
		o.shake(MaxPaths, 7)
		o.acts(Action{Kind: Dial, Path: 1})
		now := epochTime
		for path := 1; path < MaxPaths; path++ {
			o.link++
			o.Dialed(now, path, o.link)
			o.TakeActions(nil)
			for range 3 { // the link of path is there, and unproved
				now = now.Add(o.cfg.ProofTimeout / 8)
				o.Tick(now)
				o.shake(MaxPaths, 7)
				o.sendTo(5000, nil)
				if acts := dials(o.TakeActions(nil)); len(acts) > 0 {
					t.Fatalf("path %d unproved, and paths %v are dialed", path, acts)
				}
			}
			if silent {
				now = now.Add(o.cfg.ProofTimeout)
				o.Tick(now)
			} else {
				o.Proved(now, path)
			}
			want := []int{path + 1}
			if path+1 == MaxPaths {
				want = nil
			}
			if acts := dials(o.TakeActions(nil)); !slices.Equal(acts, want) {
				t.Fatalf("path %d proved, paths %v dialed, not %v", path, acts, want)
			}
			o.check()
		}
	}
}

// Further paths wait for the answer to a probe on path 0's link also when something
// else has proved that link: what a peer says on it before may be of a process that
// has not heard of other paths.
func TestFurtherPathsWaitForTheAnswerOnPathZero(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.acts(Action{Kind: Dial, Path: 1})
	o.DialFailed(epochTime, 1) // path 0 is asked again
	now := epochTime
	for range 4 {
		now = now.Add(o.cfg.ReconnectMax)
		o.Tick(now)
		o.HandleControl(now, 0, &wire.Header{Sport: 5000, Dport: wire.PortHost}, nil) // a ping is no answer
		if acts := dials(o.TakeActions(nil)); len(acts) > 0 {
			t.Fatalf("paths %v are dialed before path 0 has answered", acts)
		}
	}
	o.drain(0)
	o.shake(MaxPaths, 7)
	next := dials(o.TakeActions(nil))
	if len(next) != 1 {
		t.Fatalf("paths %v are dialed after the answer", next)
	}
	o.DialFailed(now, next[0])
	now = now.Add(o.cfg.ProofTimeout + time.Second) // a peer that never answers
	o.Tick(now)
	if acts := dials(o.TakeActions(nil)); len(acts) != 1 {
		t.Fatalf("paths %v are dialed after ProofTimeout", acts)
	}
}

// dials are the paths that acts has dialed.
func dials(acts []Action) (paths []int) {
	for _, a := range acts {
		if a.Kind == Dial {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

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
