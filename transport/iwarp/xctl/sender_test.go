package xctl

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

var epoch = time.Unix(1000, 0)

// send begins and ends n messages, with IDs that are their numbers.
func send(t *testing.T, s *Sender, n int) {
	t.Helper()
	for range n {
		if step := s.Next(epoch); step != StepNew {
			t.Fatalf("the next step is %v", step)
		}
		s.Begin(uint64(s.next))
		s.End()
	}
}

func outcomes(s *Sender) (list []Outcome) {
	for {
		o, ok := s.Pop()
		if !ok {
			return list
		}
		list = append(list, o)
	}
}

func mustCredit(t *testing.T, s *Sender, delivered, limit uint32) {
	t.Helper()
	must(t, s.Credit(Credit{s.srq, delivered, limit}))
}

func mustNAK(t *testing.T, s *Sender, now time.Time, n NAK) {
	t.Helper()
	must(t, s.NAK(n, now))
}

func TestSenderStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 3, 0)
	send(t, s, 3)
	if s.Next(epoch) != StepCredit {
		t.Error("goes beyond its credit")
	}
	mustCredit(t, s, 2, 4)
	if got := outcomes(s); len(got) != 2 || got[1] != (Outcome{ID: 2}) {
		t.Errorf("%v", got)
	}
	send(t, s, 1)
	mustCredit(t, s, 1, 3) // older: changes nothing
	if s.Next(epoch) != StepCredit || s.Outstanding() != 2 || s.acked != 2 || s.limit != 4 {
		t.Error("an old CREDIT counts")
	}
}

// A message that is refused while it is being sent is cut short, and given back
// only when its memory is no longer looked at.
func TestRefusedMessageIsCutShort(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 8, 0)
	s.Begin(7)
	if s.Cut() || s.Next(epoch) != StepFinish {
		t.Error("cut without a reason")
	}
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 1, Code: NAKTooLong, Info: 4096})
	if _, ok := s.Pop(); ok || !s.Cut() || s.Next(epoch) != StepFinish {
		t.Error("not cut, or given back")
	}
	s.End()
	if o, ok := s.Pop(); !ok || o != (Outcome{ID: 7, Code: NAKTooLong, Info: 4096}) {
		t.Errorf("%v", o)
	}
	// One that will be replayed is cut too, and begun again.
	s.Begin(8)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 2, Code: NAKNotReady, Info: 8})
	if !s.Cut() || s.Next(epoch) != StepFinish {
		t.Error("not cut")
	}
	s.End()
	if s.Next(epoch) != StepResume || s.Resume() != (Resume{1, 3}) || s.Next(epoch) != StepReplay {
		t.Error("not replayed")
	}
	if id, msn := s.Replay(); id != 8 || msn != 3 || s.Cut() {
		t.Errorf("replays %d as %d", id, msn)
	}
}

func TestOutcomesKeepTheOrder(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 8, 0)
	send(t, s, 4)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 3, Code: NAKForbidden})
	if got := outcomes(s); got != nil {
		t.Errorf("%v before those of messages before", got)
	}
	mustCredit(t, s, 2, 8)
	if got := outcomes(s); len(got) != 3 || got[2] != (Outcome{ID: 3, Code: NAKForbidden}) {
		t.Errorf("%v", got)
	}
	if id, ok := s.Lost(); !ok || id != 4 || s.Outstanding() != 0 {
		t.Errorf("lost %d, %v", id, ok)
	}
	if _, ok := s.Lost(); ok {
		t.Error("lost more")
	}
}

func TestSenderWaitsForTheTimeOrACredit(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		s := NewSender(1, 4, 0)
		send(t, s, 4)
		mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 2, Code: NAKNotReady, Backoff: 5, Info: 6})
		if at, ok := s.Deadline(); !ok || at != epoch.Add(5*time.Millisecond) || s.Next(at.Add(-1)) != StepWait {
			t.Errorf("deadline %v, %v", at, ok)
		}
		mustCredit(t, s, 1, 6) // is of before: the NAK has that limit already
		if s.Next(epoch) != StepWait {
			t.Error("woken by an old CREDIT")
		}
		now := epoch.Add(5 * time.Millisecond)
		if early {
			mustCredit(t, s, 1, 7)
			now = epoch
		}
		if s.Next(now) != StepResume || s.Resume() != (Resume{1, 5}) {
			t.Errorf("does not resume")
		}
		// 2 to 4 once more, then 5, within the limit.
		for _, want := range []uint64{2, 3, 4} {
			if s.Next(now) == StepCredit {
				mustCredit(t, s, s.next-1, s.next+1)
			}
			if id, _ := s.Replay(); id != want {
				t.Errorf("replays %d, not %d", id, want)
			}
			s.End()
		}
		if got := s.Next(now); got == StepReplay {
			t.Error("replays something new")
		}
	}
}

// Without any credit one message goes out after a RESUME, to find out.
func TestResumedQueueMayBeProbed(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 2, 0)
	send(t, s, 2)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 1, Code: NAKNotReady, Info: 2})
	s.Resume()
	s.Replay()
	s.End()
	if s.Next(epoch) != StepCredit {
		t.Error("more than one")
	}
}

// TestRetriesRunOut has a queue that is never ready: after seven retries its
// messages fail, and the queue takes new ones.
func TestRetriesRunOut(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 2, DefaultRetries)
	send(t, s, 2)
	first := uint32(1)
	for try := range DefaultRetries {
		mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: first, Code: NAKNotReady, Info: 2})
		if s.Outstanding() != 2 || outcomes(s) != nil {
			t.Fatalf("fails after %d retries", try)
		}
		s.Resume()
		_, first = s.Replay()
		s.End()
	}
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: first, Code: NAKNotReady, Info: 2})
	if got := outcomes(s); len(got) != 2 || got[0] != (Outcome{ID: 1, Code: NAKNotReady, Info: 2}) || got[1].ID != 2 {
		t.Errorf("%v", got)
	}
	if s.Next(epoch) != StepResume {
		t.Error("does not resume at once")
	}
	s.Resume()
	if s.Next(epoch) != StepNew || s.tries != 0 {
		t.Errorf("%v, %d tries", s.Next(epoch), s.tries)
	}
	// A delivery starts the count again.
	s = NewSender(1, 9, 1)
	send(t, s, 2)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 1, Code: NAKNotReady, Info: 9})
	s.Resume()
	s.Replay()
	s.End()
	s.Replay()
	s.End()
	mustCredit(t, s, 3, 9)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 4, Code: NAKNotReady, Info: 9})
	if got := outcomes(s); len(got) != 1 || got[0] != (Outcome{ID: 1}) || s.Outstanding() != 1 {
		t.Errorf("%v", got)
	}
	if id, ok := s.Lost(); !ok || id != 2 {
		t.Errorf("lost %d, %v", id, ok)
	}
	if o, ok := s.Pop(); ok {
		t.Errorf("%v of what is lost", o)
	}
	// 0 never ends.
	s = NewSender(1, 1, 0)
	send(t, s, 1)
	for msn := range uint32(1000) {
		mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: msn + 1, Code: NAKNotReady})
		s.Resume()
		s.Replay()
		s.End()
	}
	if s.Outstanding() != 1 {
		t.Error("gave up")
	}
}

// Messages for a queue that is gone cost no credit: there may be nobody to
// give it back.
func TestUnknownQueueCostsNoCredit(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 4, 0)
	for msn := uint32(1); msn <= 100; msn++ {
		send(t, s, 1)
		mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: msn, Code: NAKUnknown})
	}
	if got := outcomes(s); len(got) != 100 || got[99] != (Outcome{ID: 100, Code: NAKUnknown}) {
		t.Errorf("%d outcomes", len(got))
	}
	send(t, s, 4)
	if s.Next(epoch) != StepCredit {
		t.Error("no limit at all")
	}
}

func TestPeersThatAnswerNonsenseAreFound(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(s *Sender) error{
		"delivered before it was sent": func(s *Sender) error { return s.Credit(Credit{1, 5, 9}) },
		"NAK of the future":            func(s *Sender) error { return s.NAK(NAK{SRQ: 1, MSN: 5, Code: NAKUnknown}, epoch) },
		"NAK of what is delivered":     func(s *Sender) error { return s.NAK(NAK{SRQ: 1, MSN: 1, Code: NAKUnknown}, epoch) },
		"NAK twice": func(s *Sender) error {
			return errors.Join(s.NAK(NAK{SRQ: 1, MSN: 3, Code: NAKUnknown}, epoch), s.NAK(NAK{SRQ: 1, MSN: 3, Code: NAKUnknown}, epoch))
		},
		"delivered while it is being sent": func(s *Sender) error {
			s.Begin(5)
			return s.Credit(Credit{1, 5, 9})
		},
		"delivered after a stop": func(s *Sender) error {
			return errors.Join(s.NAK(NAK{SRQ: 1, MSN: 3, Code: NAKNotReady}, epoch), s.Credit(Credit{1, 3, 9}))
		},
		"stopped twice": func(s *Sender) error {
			return errors.Join(s.NAK(NAK{SRQ: 1, MSN: 3, Code: NAKNotReady}, epoch), s.NAK(NAK{SRQ: 1, MSN: 2, Code: NAKNotReady}, epoch))
		},
		"refused out of turn": func(s *Sender) error {
			return errors.Join(s.NAK(NAK{SRQ: 1, MSN: 4, Code: NAKForbidden}, epoch), s.NAK(NAK{SRQ: 1, MSN: 3, Code: NAKNotReady}, epoch))
		},
	} {
		s := NewSender(1, 8, 0)
		send(t, s, 4)
		mustCredit(t, s, 1, 8)
		if err := f(s); !errors.Is(err, rdmap.CauseStreamCatastrophic) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := NewSender(1, 8, 0)
	send(t, s, 1)
	if err := s.NAK(NAK{SRQ: 1, MSN: 1}, epoch); !errors.Is(err, rdmap.CauseOpcode) {
		t.Errorf("NAK code 0: %v", err)
	}
	if err := s.NAK(NAK{SRQ: 1, MSN: 1, Code: 200}, epoch); err != nil {
		t.Errorf("a code of the future: %v", err)
	}
	if o, ok := s.Pop(); !ok || o.Code != 200 {
		t.Errorf("%v", o)
	}
}

// Acknowledging numbers that were dropped is no progress: retries end all the same.
func TestRetriesEndThoughDroppedNumbersAreAcknowledged(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	s := NewSender(1, 16, 2)
	msn := s.Begin(7)
	s.End()
	for range 2 {
		must(t, s.NAK(NAK{SRQ: 1, MSN: msn, Code: NAKNotReady, Info: 16}, now))
		s.Resume()
		_, msn = s.Replay()
		s.End()
		must(t, s.Credit(Credit{1, msn - 1, 16}))
	}
	must(t, s.NAK(NAK{SRQ: 1, MSN: msn, Code: NAKNotReady, Info: 16}, now))
	if o, ok := s.Pop(); !ok || o.ID != 7 || o.Code != NAKNotReady {
		t.Fatalf("%+v, %v", o, ok)
	}
}

// A message that is withdrawn leaves no gap in the numbers and keeps its place
// among the outcomes. What the peer says of its number is of the next message.
func TestWithdrawnMessageLeavesNoGap(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 8, 0)
	send(t, s, 1)
	for id := uint64(10); id < 13; id++ {
		if s.Begin(id) != 2 {
			t.Error("a number is lost")
		}
		s.Withdraw()
	}
	if got := outcomes(s); got != nil {
		t.Errorf("%v before that of the message before", got)
	}
	send(t, s, 2)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 2, Code: NAKForbidden})
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 1, Code: NAKForbidden})
	want := []Outcome{{ID: 1, Code: NAKForbidden}, {ID: 10, Withdrawn: true}, {ID: 11, Withdrawn: true}, {ID: 12, Withdrawn: true}, {ID: 2, Code: NAKForbidden}}
	if got := outcomes(s); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.Begin(20)
	s.Withdraw()
	if err := s.NAK(NAK{SRQ: 1, MSN: 4, Code: NAKForbidden}, epoch); err == nil {
		t.Error("refused what was never sent")
	}
	if err := s.NAK(NAK{SRQ: 1, MSN: 2, Code: NAKForbidden}, epoch); err == nil {
		t.Error("refused twice")
	}
	mustCredit(t, s, 3, 8)
	if got := outcomes(s); len(got) != 2 || got[1] != (Outcome{ID: 20, Withdrawn: true}) || s.Outstanding() != 0 {
		t.Errorf("%v", got)
	}
}

// Messages that are withdrawn while they are replayed, and before, are passed over
// by a stop and not sent again; they wait for those before them.
func TestWithdrawnMessageIsNotReplayed(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 8, 0)
	send(t, s, 2)
	s.Begin(10)
	s.Withdraw()
	send(t, s, 1)
	mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 2, Code: NAKNotReady, Info: 8})
	s.Resume()
	for i, want := range []uint64{2, 3} {
		if s.Next(epoch) != StepReplay {
			t.Fatalf("%v", s.Next(epoch))
		}
		if id, msn := s.Replay(); id != want || msn != 4 {
			t.Errorf("replays %d as %d", id, msn)
		}
		if i == 0 {
			s.Withdraw()
		}
	}
	if _, ok := s.Number(); !ok {
		t.Error("the first one has no number")
	}
	s.End()
	mustCredit(t, s, 1, 8)
	want := []Outcome{{ID: 1}, {ID: 2, Withdrawn: true}, {ID: 10, Withdrawn: true}}
	if got := outcomes(s); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.Begin(20)
	s.Withdraw()
	if id, ok := s.Lost(); !ok || id != 3 {
		t.Errorf("lost %d, %v", id, ok)
	}
	if msn, sent := s.Number(); sent {
		t.Errorf("the peer has got what was withdrawn, as %d", msn)
	}
}

// What a burst took is given back when it is over; what is kept is little.
func TestIdleSenderIsSmall(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 8, 0)
	const burst = 1 << 16
	mustCredit(t, s, 0, burst+100)
	send(t, s, burst)
	if _, ok := s.Rest(); ok || len(s.ring) != burst {
		t.Errorf("rests with %d outstanding, a ring of %d", s.Outstanding(), len(s.ring))
	}
	mustCredit(t, s, burst-1, burst+100)
	outcomes(s)
	if len(s.ring) != burst {
		t.Error("the ring shrinks below what is outstanding")
	}
	mustCredit(t, s, burst, burst+100)
	if outcomes(s); len(s.ring) > ringKept {
		t.Errorf("a ring of %d is kept", len(s.ring))
	}
	r, ok := s.Rest()
	if !ok {
		t.Fatal("does not rest")
	}
	if err := r.Credit(Credit{1, burst + 1, burst + 200}); !errors.Is(err, rdmap.CauseStreamCatastrophic) {
		t.Errorf("delivered before it was sent: %v", err)
	}
	for _, c := range []Credit{{1, burst, burst + 200}, {1, 3, 4}} {
		must(t, r.Credit(c))
	}
	s = r.Sender(1, 8, 0)
	if s.Begin(7) != burst+1 || s.limit != burst+200 || s.acked != burst {
		t.Errorf("%+v", s)
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
