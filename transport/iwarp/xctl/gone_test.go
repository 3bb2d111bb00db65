package xctl

import (
	"testing"
	"time"
)

// What was granted to the sender of a queue that went is refused and not held
// against it, once for each message; what it sends beyond is.
func TestWhatWasOnItsWayIsBlameless(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{RNR: true, Credit: 8, MaxSRQ: 2})
	r := in.Adopt(3, head(3, 1, 0, true))
	r.Grant(100)
	take(t, r, 1)
	in.Remove(3)
	unknown := func(n SRQN, msn uint32) bool {
		nak, _ := Unknown(n, head(n, msn, 0, true))
		return in.Blameless(nak)
	}
	for msn := uint32(2); msn <= 100; msn++ {
		if !unknown(3, msn) {
			t.Fatalf("message %d was within the limit", msn)
		}
		if unknown(3, msn) || unknown(3, 1) {
			t.Fatal("a message is excused twice")
		}
	}
	if unknown(3, 101) || unknown(4, 1) {
		t.Error("excused beyond the limit, or of a queue that never was")
	}
	// A queue of that number again begins anew, and only the last ones are known.
	for n := SRQN(5); n < 50; n++ {
		in.Adopt(n, head(n, 1, 0, true))
		in.Remove(n)
		if len(in.gone) > 2 {
			t.Fatalf("%d queues that are gone are remembered", len(in.gone))
		}
	}
	if in.Adopt(49, head(49, 3, 0, true)); unknown(49, 4) {
		t.Error("excused of a queue that exists")
	}
}

// Messages to one queue that does not exist count once in a second, those to many
// count each; nothing is remembered for long.
func TestErrorRateOfQueues(t *testing.T) {
	t.Parallel()
	e := ErrorRate{PerSecond: 10, InAll: 30}
	now := time.Unix(50, 0)
	for second := range 3 {
		for range 1000 {
			if !e.AddQueue(7, now) {
				t.Fatal("one queue is one error")
			}
		}
		for n := SRQN(100); n < 109; n++ {
			if !e.AddQueue(n, now) {
				t.Fatalf("second %d: ends with queue %d", second, n)
			}
		}
		if second < 2 {
			now = now.Add(time.Second)
		}
	}
	if len(e.queues) != 10 || e.all != 30 {
		t.Errorf("%d queues remembered, %d errors", len(e.queues), e.all)
	}
	if e.AddQueue(200, now) {
		t.Error("11 queues in a second")
	}
	if e.AddQueue(7, now.Add(time.Second)) {
		t.Error("31 errors in all")
	}
	var none ErrorRate
	for n := range SRQN(10_000) {
		if !none.AddQueue(n, now) || none.queues != nil {
			t.Fatal("the zero ErrorRate counts")
		}
	}
}
