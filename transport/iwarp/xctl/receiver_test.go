package xctl

import (
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func head(n SRQN, msn, mo uint32, last bool) *ddp.Untagged {
	return &ddp.Untagged{Last: last, ULP: rdmap.OpSend.Control(), QN: n.QN(), MSN: msn, MO: mo}
}

// arrive expects an arrival.
func arrive(t *testing.T, r *Receiver, h *ddp.Untagged, want Arrival) {
	t.Helper()
	if a, err := r.Arrive(h); a != want || err != nil {
		t.Fatalf("MSN %d, MO %d: arrival %d, %v", h.MSN, h.MO, a, err)
	}
}

// take delivers one message of one segment.
func take(t *testing.T, r *Receiver, msn uint32) {
	t.Helper()
	h := head(r.SRQ(), msn, 0, true)
	arrive(t, r, h, ArrivalFirst)
	r.Take()
	if !r.Advance(h, 10) {
		t.Fatalf("message %d is not whole", msn)
	}
}

// A queue that comes into being amid a message does not get the rest of it.
func TestEntryBeginsWithAMessage(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{MaxSRQ: 1})
	if in.Adopt(7, head(7, 3, 10, true)) != nil {
		t.Error("adopted the middle of a message")
	}
	r := in.Adopt(7, head(7, 4, 0, true))
	take(t, r, 4)
	if in.Adopt(8, head(8, 1, 0, true)) != nil {
		t.Error("more entries than MaxSRQ")
	}
	if _, err := r.Arrive(head(7, 4, 0, true)); err != ddp.ErrMSNRange {
		t.Errorf("the same again: %v", err)
	}
	if _, err := r.Arrive(head(7, 6, 0, true)); err != ddp.ErrMSNRange {
		t.Errorf("a gap: %v", err)
	}
	if _, err := r.Arrive(head(7, 5, 8, true)); err != ddp.ErrInvalidMO {
		t.Errorf("a wrong offset: %v", err)
	}
}

func TestBackoffDoublesUntilADelivery(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{RNR: true, longest: 5 * time.Millisecond})
	r := in.Adopt(3, head(3, 1, 0, true))
	msn := uint32(1)
	for _, want := range []uint16{1, 2, 4, 5, 5, 0, 1, 2} {
		if want == 0 {
			take(t, r, msn)
			msn++
			continue
		}
		h := head(3, msn, 0, true)
		arrive(t, r, h, ArrivalFirst)
		if n, _ := r.NotReady(); n.Backoff != want {
			t.Errorf("message %d: %d ms, not %d", msn, n.Backoff, want)
		}
		r.Advance(h, 0)
		msn++
		must(t, in.Resume(Resume{3, msn}))
	}
}

// A sender that cannot be told to wait must keep to its limit; one that can is
// told.
func TestBeyondTheLimit(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 2})
	r := in.Adopt(3, head(3, 1, 0, true))
	take(t, r, 1)
	take(t, r, 2)
	if _, err := r.Arrive(head(3, 3, 0, true)); err != ddp.ErrNoBuffer {
		t.Errorf("beyond the limit: %v", err)
	}
	r.Grant(1)
	arrive(t, r, head(3, 3, 0, true), ArrivalFirst)
	if _, err := r.NotReady(); err != ddp.ErrNoBuffer {
		t.Errorf("a promise that is not kept: %v", err)
	}

	in = NewInbound(InboundConfig{Credit: 2, RNR: true})
	r = in.Adopt(3, head(3, 1, 0, true))
	for msn := range uint32(5) {
		take(t, r, msn+1)
	}
}

// A refusal for want of a queue gives the credit back, at both ends.
func TestRefusedMessagesRaiseTheLimit(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 2})
	r := in.Adopt(3, head(3, 1, 0, true))
	for msn := uint32(1); msn <= 10; msn++ {
		h := head(3, msn, 0, true)
		arrive(t, r, h, ArrivalFirst)
		r.Refuse(NAKUnknown, 0)
		r.Advance(h, 1)
	}
	if r.limit != 12 {
		t.Errorf("limit %d", r.limit)
	}
	for msn := uint32(11); msn <= 12; msn++ {
		h := head(3, msn, 0, true)
		arrive(t, r, h, ArrivalFirst)
		r.Refuse(NAKForbidden, 0)
		r.Advance(h, 1)
	}
	if _, err := r.Arrive(head(3, 13, 0, true)); err != ddp.ErrNoBuffer {
		t.Errorf("other refusals give credit: %v", err)
	}
}

// The CREDIT that wakes a stopped sender has a limit that the sender has not
// heard of, however few buffers there are; that after a RESUME covers the probe.
func TestStoppedSenderHearsOfANewLimit(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 16, RNR: true})
	r := in.Adopt(3, head(3, 1, 0, true))
	h := head(3, 1, 0, true)
	arrive(t, r, h, ArrivalFirst)
	n, _ := r.NotReady()
	r.Advance(h, 1)
	r.Grant(1)
	if c, due := r.Credit(epoch); !due || c.Limit != n.Info+1 || c.Delivered != 0 {
		t.Errorf("%+v, %v", c, due)
	}
	for msn := uint32(2); msn <= 40; msn++ {
		arrive(t, r, head(3, msn, 0, true), ArrivalDrop)
		r.Advance(head(3, msn, 0, true), 1)
	}
	if err := in.Resume(Resume{3, 41}); err != nil || r.limit != 41 || r.Discarding() {
		t.Errorf("%v, limit %d", err, r.limit)
	}
}

// What an entry that is gone had granted is not held against the sender.
func TestLimitOfAnEarlierEntryCounts(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 2, window: 50})
	r := in.Adopt(3, head(3, 1, 0, true))
	r.Grant(50)
	take(t, r, 1)
	if c, ok := in.Remove(3); !ok || c != (Credit{3, 1, 50}) {
		t.Errorf("%+v, %v", c, ok)
	}
	r = in.Adopt(3, head(3, 2, 0, true))
	for msn := uint32(2); msn <= 50; msn++ {
		take(t, r, msn)
	}
	if _, err := r.Arrive(head(3, 100, 0, true)); err == nil {
		t.Error("anything goes")
	}
}

// A sender that has used up its credit when the queue ends gets some more, to
// find out; that of a stopped one is more than it knows of.
func TestLastCreditOfAQueue(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 1, RNR: true})
	r := in.Adopt(3, head(3, 1, 0, true))
	take(t, r, 1)
	if c, ok := in.Remove(3); !ok || c != (Credit{3, 1, 2}) || in.Len() != 0 || in.Find(3) != nil {
		t.Errorf("%+v, %v", c, ok)
	}
	if _, ok := in.Remove(3); ok {
		t.Error("removed twice")
	}
	// Amid a message that was refused: the entry stays for the rest of it, and
	// the credit is beyond it.
	r = in.Adopt(3, head(3, 2, 0, false))
	h := head(3, 2, 0, false)
	arrive(t, r, h, ArrivalFirst)
	r.Refuse(NAKTooLong, 5)
	r.Advance(h, 10)
	if c, ok := in.Remove(3); !ok || c != (Credit{3, 1, 3}) || in.Find(3) != r {
		t.Errorf("%+v, %v", c, ok)
	}
	h = head(3, 2, 10, true)
	arrive(t, r, h, ArrivalDrop)
	r.Advance(h, 10)
	if in.Find(3) != nil || in.Len() != 0 {
		t.Error("the entry stays")
	}
	// While it discards: until the RESUME.
	r = in.Adopt(3, head(3, 3, 0, true))
	arrive(t, r, head(3, 3, 0, true), ArrivalFirst)
	nak, _ := r.NotReady()
	r.Advance(head(3, 3, 0, true), 10)
	if c, ok := in.Remove(3); !ok || c.Delivered != 2 || c.Limit <= nak.Info || in.Find(3) != r {
		t.Errorf("%+v, %v", c, ok)
	}
	arrive(t, r, head(3, 4, 0, true), ArrivalDrop)
	r.Advance(head(3, 4, 0, true), 10)
	if err := in.Resume(Resume{3, 5}); err != nil || in.Len() != 0 {
		t.Errorf("%v, %d entries", err, in.Len())
	}
}

func TestCreditsAreBatched(t *testing.T) {
	t.Parallel()
	in := NewInbound(InboundConfig{Credit: 16, RNR: true})
	r := in.Adopt(3, head(3, 1, 0, true))
	now := epoch
	if _, due := r.Credit(now); due {
		t.Error("a CREDIT that says what the peer knows")
	}
	var told []uint32
	for msn := uint32(1); msn <= 64; msn++ {
		take(t, r, msn)
		r.Grant(16)
		if c, due := r.Credit(now); due {
			told = append(told, c.Limit)
		}
	}
	if len(told) > 8 || len(told) < 7 || told[0] != 24 {
		t.Errorf("limits %v", told)
	}
	take(t, r, 65)
	if _, due := r.Credit(now); due {
		t.Error("a CREDIT for one message")
	}
	at := now.Add(CreditDelay)
	if _, due := r.Credit(at.Add(-1)); due {
		t.Error("a CREDIT before its time")
	}
	if c, due := r.Credit(at); !due || c.Delivered != 65 {
		t.Errorf("%+v, %v", c, due)
	}
	if _, due := r.Credit(at.Add(CreditDelay)); due {
		t.Error("more to say")
	}
	// A sender without credit, or one that was stopped, hears of a buffer at once.
	r.Grant(0)
	for msn := uint32(66); msn <= 80; msn++ {
		take(t, r, msn)
	}
	r.Credit(now)
	arrive(t, r, head(3, 81, 0, true), ArrivalFirst)
	n, _ := r.NotReady()
	r.Advance(head(3, 81, 0, true), 0)
	r.Grant(0)
	if c, due := r.Credit(now); due && c.Limit > n.Info {
		t.Errorf("%+v without a buffer", c)
	}
	r.Grant(1)
	if c, due := r.Credit(now); !due || c.Limit <= n.Info || c.Delivered != 80 {
		t.Errorf("%+v, %v", c, due)
	}
}

// TestErrorRate: ten thousand messages for queues that do not exist are answered
// until the connection has had enough.
func TestErrorRate(t *testing.T) {
	t.Parallel()
	count := func(every time.Duration) (n int) {
		e := ErrorRate{PerSecond: ErrorsPerSecond, InAll: ErrorsInAll}
		for now := epoch; n < 10_000 && e.Add(now); now = now.Add(every) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		every time.Duration
		want  int
	}{
		{0, 64},
		{time.Millisecond, 64},
		{time.Second / 64, 4096},
		{time.Minute, 4096},
	} {
		if got := count(c.every); got != c.want {
			t.Errorf("one every %v: %d", c.every, got)
		}
	}
	var none ErrorRate
	for range 10_000 {
		if !none.Add(epoch) {
			t.Fatal("the zero ErrorRate has a limit")
		}
	}
}
