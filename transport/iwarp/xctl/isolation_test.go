package xctl

import "testing"

// TestStoppedApplicationHoldsUpNobody leaves one queue without buffers for good
// while messages for it and seven others are under way.
// All others finish first; what waits is bounded by the messages themselves, and
// the sender's side of the stopped queue costs the connection a few octets for
// each try.
func TestStoppedApplicationHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(seed, honest, 8, 800, 0)
		stopped := w.queues[0]
		for _, q := range w.queues {
			q.up, q.stale, q.gen = true, false, 1
		}
		steps := 0
		for rest := 1; rest > 0; steps++ {
			if steps > 400_000 {
				t.Fatalf("seed %d: %d messages of others are stuck", seed, rest)
			}
			stopped.up, stopped.stale, stopped.buffers, stopped.dry = true, false, 0, true
			w.step(false)
			rest = 0
			for _, q := range w.queues[1:] {
				rest += len(q.pending) + q.send.Outstanding()
			}
		}
		for _, m := range w.msgs {
			if m.queue == 0 && m.outcome != nil && m.outcome.Code != NAKForbidden && !m.withdrawn {
				t.Errorf("seed %d: message %d of the stopped queue: %+v", seed, m.id, m.outcome)
			}
		}
		if len(stopped.pending) == 0 || stopped.send.Outstanding() > DefaultCredit {
			t.Errorf("seed %d: %d of the stopped queue outstanding, %d to come", seed, stopped.send.Outstanding(), len(stopped.pending))
		}
		if err := w.run(); err != nil { // and now it reads again
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
