//go:build !live

package gnetloop

import (
	"testing"
	"time"
)

// A message that has begun has to go on within the limit, and to be whole within that and
// its length at begunRate, whatever the pace. What is not read by this side, and a process
// that was stopped, are no fault of the peer.
func TestBegunMessageHasATimeLimit(t *testing.T) {
	t.Parallel()
	const limit, step = defaultSilence, defaultSilence / silenceLooks
	type state struct {
		number         uint64
		left           int
		paused, unread bool
	}
	for _, tt := range []struct {
		name     string
		state    func(at time.Duration) state
		from, to time.Duration // when the time is over; 0: never
	}{
		{"nothing is begun", func(time.Duration) state { return state{} }, 0, 0},
		{"nothing follows the header", func(time.Duration) state { return state{left: 1 << 20} }, limit, limit + 2*step},
		{"it stops half-way", func(at time.Duration) state { return state{left: 1<<20 - int(min(at, time.Minute)/time.Millisecond)} }, time.Minute + limit, time.Minute + limit + 2*step},
		{"a byte each second", func(at time.Duration) state { return state{left: 1<<20 - int(at/time.Second)} }, limit + 256*time.Second, limit + 256*time.Second + step},
		{"a byte each second, and something that is never read", func(at time.Duration) state { return state{left: 1<<20 - int(at/time.Second), unread: true} }, limit + 256*time.Second, limit + 256*time.Second + step},
		{"a small one, a byte each second", func(at time.Duration) state { return state{left: max(1, 100-int(at/time.Second))} }, limit, limit + 2*step},
		{"one after the other", func(at time.Duration) state { return state{number: uint64(at / step), left: 1 << 20} }, 0, 0},
		{"this side does not read for an hour", func(at time.Duration) state { return state{left: 1 << 20, paused: at < time.Hour} }, time.Hour + limit - 2*step, time.Hour + limit + 2*step},
	} {
		var b begun
		began, over := time.Unix(1000, 0), false
		at := time.Duration(0)
		for ; at <= 2*time.Hour && !over; at += step {
			s := tt.state(at)
			over = b.look(began.Add(at), s.number, s.left, s.paused, s.unread, limit)
		}
		at -= step
		if over != (tt.to > 0) || over && (at < tt.from || at > tt.to) {
			t.Errorf("%s: over %v after %v; expected %v to %v", tt.name, over, at, tt.from, tt.to)
		}
	}
	var b begun
	now := time.Unix(1000, 0)
	b.look(now, 1, 1000, false, false, limit)
	if now = now.Add(time.Hour); b.look(now, 1, 1000, false, false, limit) {
		t.Error("over after two looks")
	}
}
