//go:build !live

package gnetloop

import (
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
)

// watched runs the decision with the real limit: what a connection looks like is told
// by a function of the time, and every look is silenceLooks-th of the limit later.
func watched(limit, most time.Duration, state func(at time.Duration) (unanswered bool, heard time.Duration)) (time.Duration, bool) {
	var s silence
	start := time.Unix(1000, 0)
	for at := time.Duration(0); at <= most; at += limit / silenceLooks {
		unanswered, heard := state(at)
		if s.look(start.Add(at), unanswered, at-heard, limit) {
			return at, true
		}
	}
	return 0, false
}

// The decision, with the limit that is the default. heard is when the peer's TCP has
// answered last.
func TestSilenceIsData20sUnanswered(t *testing.T) {
	t.Parallel()
	const limit = defaultSilence
	if limit != 20*time.Second {
		t.Fatalf("the default is %v", limit)
	}
	late := limit + 2*limit/silenceLooks
	for _, tt := range []struct {
		name     string
		state    func(at time.Duration) (bool, time.Duration)
		from, to time.Duration // when it is silent; 0: never
	}{
		{"dropped packets", func(at time.Duration) (bool, time.Duration) { return at >= time.Second, 0 }, limit, late + 2*time.Second},
		{"nothing was sent", func(at time.Duration) (bool, time.Duration) { return false, 0 }, 0, 0},
		{"an hour of nothing, then a message", func(at time.Duration) (bool, time.Duration) {
			return at >= time.Hour, 0
		}, time.Hour + limit, time.Hour + late},
		{"an hour of nothing, then a message that is acknowledged", func(at time.Duration) (bool, time.Duration) {
			if at < time.Hour {
				return false, 0
			}
			return at < time.Hour+2*time.Second, time.Hour + 2*time.Second
		}, 0, 0},
		{"acknowledgements each second", func(at time.Duration) (bool, time.Duration) { return true, at.Truncate(time.Second) }, 0, 0},
		{"an acknowledgement each 19 s", func(at time.Duration) (bool, time.Duration) { return true, at.Truncate(19 * time.Second) }, 0, 0},
		{"a closed window, probed each 2 minutes, answered after 1 s", func(at time.Duration) (bool, time.Duration) {
			probe := at.Truncate(2 * time.Minute)
			if at-probe < time.Second {
				return true, probe - 2*time.Minute + time.Second
			}
			return false, probe + time.Second
		}, 0, 0},
		{"a closed window, and a probe after 2 minutes that nobody answers", func(at time.Duration) (bool, time.Duration) {
			return at >= 2*time.Minute, 0
		}, 2*time.Minute + limit, 2*time.Minute + late},
		{"one answer after 19 s", func(at time.Duration) (bool, time.Duration) {
			return true, min(at, 19*time.Second)
		}, 19*time.Second + limit, 19*time.Second + late},
	} {
		at, silent := watched(limit, 2*time.Hour, tt.state)
		if silent != (tt.to > 0) || at < tt.from || at > tt.to {
			t.Errorf("%s: silent %v, after %v; expected %v to %v", tt.name, silent, at, tt.from, tt.to)
		}
	}
}

func TestWhatIsUnanswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		info transport.TCPInfo
		want bool
	}{
		{"nothing is in flight", transport.TCPInfo{LastDataSent: time.Second, LastAckRecv: time.Minute}, false},
		{"a segment is in flight", transport.TCPInfo{Unacked: 1, LastDataSent: time.Second, LastAckRecv: time.Minute}, true},
		{"a segment beyond a window that has closed was answered", transport.TCPInfo{Unacked: 1, Retransmits: 8, LastDataSent: 25 * time.Second, LastAckRecv: 25 * time.Second}, false},
		{"a window is closed", transport.TCPInfo{NotSent: 1, LastDataSent: time.Minute, LastAckRecv: time.Minute}, false},
		{"a probe of it is not answered", transport.TCPInfo{NotSent: 1, Probes: 1, LastDataSent: time.Hour, LastAckRecv: time.Minute}, true},
	} {
		if unanswered(&tt.info) != tt.want {
			t.Errorf("%s: unanswered is %v", tt.name, !tt.want)
		}
	}
}

func TestWhatIsOwed(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	for _, tt := range []struct {
		name                string
		outstanding, unread bool
		info                transport.TCPInfo
		limit               time.Duration // 0: nothing is owed
	}{
		{"a segment is in flight", true, false, transport.TCPInfo{Unacked: 1, LastAckRecv: time.Millisecond}, 20 * time.Second},
		{"all is acknowledged", false, false, transport.TCPInfo{LastAckRecv: 4 * time.Second}, 0},
		{"a probe of keepalive is due", false, false, transport.TCPInfo{LastAckRecv: 6 * time.Second}, 25 * time.Second},
		{"a segment is in flight and we do not read", true, true, transport.TCPInfo{Unacked: 1, LastAckRecv: time.Hour}, 0},
		{"a probe of keepalive is due and we do not read", false, true, transport.TCPInfo{LastAckRecv: time.Hour}, 0},
	} {
		if owed, limit := o.owes(tt.outstanding, tt.unread, &tt.info); owed != (tt.limit > 0) || owed && limit != tt.limit {
			t.Errorf("%s: owed %v, limit %v", tt.name, owed, limit)
		}
	}
}

// What stops the process, or the machine, for a minute is no silence of the peer: its
// answer may wait in a buffer that has not been looked at yet.
func TestSilenceNeedsLooks(t *testing.T) {
	t.Parallel()
	var s silence
	now := time.Unix(1000, 0)
	s.look(now, true, 0, defaultSilence)
	now = now.Add(time.Minute)
	if s.look(now, true, time.Minute, defaultSilence) {
		t.Fatal("silent, by two looks")
	}
	for range silenceLooks - 2 {
		now = now.Add(defaultSilence / silenceLooks)
		if s.look(now, true, 2*time.Minute, defaultSilence) {
			t.Fatal("silent too early")
		}
	}
	if !s.look(now, true, 2*time.Minute, defaultSilence) {
		t.Fatal("not silent")
	}
}

// The kernel gives up after 15 retransmissions; that must not be before the limit.
func TestKernelIsNotMoreImpatient(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Second, defaultSilence, defaultSilence + 1, time.Minute, 10 * time.Minute, time.Hour} {
		o := Options{Silence: limit}.withDefaults()
		most, total := o.rtoMax(), time.Duration(0)
		if most < time.Second || most > 2*time.Minute {
			t.Errorf("limit %v: the kernel refuses %v", limit, most)
		}
		for i, rto := 0, 200*time.Millisecond; i <= 15; i++ {
			total += min(rto<<i, most)
		}
		if total < min(limit, 15*time.Minute) {
			t.Errorf("limit %v: the kernel gives up after %v", limit, total)
		}
	}
	if o := (Options{Silence: -1}).withDefaults(); o.rtoMax() != 2*time.Minute {
		t.Errorf("never: %v", o.rtoMax())
	}
}
