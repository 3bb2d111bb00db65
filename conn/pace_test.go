package conn

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// Dials of peers that were never reached keep to the pace that they share, however many they are, and
// few peers are dialed as if there were none. Who is lost is dialed again at once among them.
func TestDialsKeepThePace(t *testing.T) {
	t.Parallel()
	for _, peers := range []int{20, 1000} {
		shared := NewPace(epochTime)
		var all []*Conn
		for i := range peers {
			c := New(Config{
				Local: netip.MustParseAddr("10.0.0.1"), Remote: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}),
				Rand: rand.New(rand.NewPCG(1, uint64(i))), Pace: shared, FirstSequence: 1, Generation: 1,
			})
			c.Connect(epochTime)
			all = append(all, c)
		}
		lost := newConn(t, Config{Pace: shared})
		up(t, lost, 1)
		const span = 20 * time.Second
		dials, most := 0, 0
		var again time.Time
		for at := time.Duration(0); at < span; at += 2 * time.Millisecond {
			now := epochTime.Add(at)
			if at == span/2 {
				lost.LinkClosed(now, 1, 0)
			}
			if d := lost.Deadline(); !d.IsZero() && !d.After(now) {
				lost.Tick(now)
			}
			for _, a := range lost.TakeActions(nil) {
				if a.Kind == Dial && again.IsZero() {
					again = now
				}
			}
			for _, c := range all {
				if d := c.Deadline(); !d.IsZero() && !d.After(now) {
					c.Tick(now)
				}
				n := 0
				for _, a := range c.TakeActions(nil) {
					if a.Kind == Dial {
						c.DialFailed(now, a.Path)
						n++
					}
				}
				dials, most = dials+n, max(most, n)
			}
		}
		if wait := again.Sub(epochTime) - span/2; again.IsZero() || wait > 10*time.Millisecond {
			t.Errorf("%d peers: the lost one was dialed again after %v", peers, wait)
		}
		// Each waits for half a second on average, once its window is at its longest.
		alone, bound := peers*30, peers+int((span+paceBurst)/pace)
		if dials > bound || peers == 20 && dials < alone || peers == 1000 && dials < bound*9/10 {
			t.Errorf("%d peers: %d dials in %v, bound %d, alone %d", peers, dials, span, bound, alone)
		}
	}
}

// Slots that are taken and not used put nobody off for long: a path that is dialed sooner keeps its slot, and a
// slot is not further off than a minute.
func TestPaceIsBounded(t *testing.T) {
	t.Parallel()
	shared := NewPace(epochTime)
	c := newConn(t, Config{Pace: shared})
	for range 1000 { // it knocks, and refuses
		c.invited, c.paths[0].redialAt = true, time.Time{}
		c.Tick(epochTime)
		c.TakeActions(nil)
		c.DialFailed(epochTime, 0)
	}
	if at := shared.slot(epochTime, epochTime); at.After(epochTime.Add(20 * time.Millisecond)) {
		t.Errorf("one path has taken slots up to %v", at.Sub(epochTime))
	}
	for range 100_000 {
		shared.slot(epochTime, epochTime)
	}
	if at := shared.slot(epochTime, epochTime); at.After(epochTime.Add(paceMost)) {
		t.Errorf("a slot in %v", at.Sub(epochTime))
	}
}
