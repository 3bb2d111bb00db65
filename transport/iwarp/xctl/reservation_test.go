package xctl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// reserveWorld is a Reservation with senders whose records and octets take any time.
type reserveWorld struct {
	t     *testing.T
	rng   *rand.Rand
	r     *Reservation
	total int64
	most  int
	links []*reserveLink
}

// reserveLink is a connection: data and RETURNs one way, GRANTs the other.
type reserveLink struct {
	w     *reserveWorld
	share *Share
	mine  *Allowance
	there []any   // on the way to the receiver: int, octets of a segment, 0: end of the message; or Return
	back  []Grant // on the way to the sender
	told  bool    // a GRANT is to be made

	messages int // to be sent
	size     int // size of the next message
	left     int // bytes left of the message that has begun
	waits    bool
	whole    int // octets that came of the message at hand
	asked    int // messages that others have sent since it waits
}

func newReserveWorld(t *testing.T, seed uint64, total, most, links, messages int) *reserveWorld {
	w := &reserveWorld{t: t, rng: rand.New(rand.NewPCG(seed, 3)), r: NewReservation(total, most), most: most}
	w.total = int64(max(total, most))
	for range links {
		l := &reserveLink{w: w, messages: messages}
		l.connect()
		w.links = append(w.links, l)
	}
	return w
}

func (l *reserveLink) connect() {
	l.mine, l.there, l.back, l.left, l.whole, l.waits = new(Allowance), nil, nil, 0, 0, false
	l.share = l.w.r.Join(func() { l.told = true })
	l.told = true
	l.next()
}

func (l *reserveLink) next() { l.size = 1 + l.w.rng.IntN(l.w.most) }

// send does what a sender does next, if it can do something.
func (l *reserveLink) send() {
	w := l.w
	switch {
	case l.left > 0:
		n := min(l.left, 1+w.rng.IntN(w.most/4+1))
		l.there = append(l.there, n)
		if l.left -= n; l.left == 0 {
			l.there = append(l.there, 0)
			l.messages--
			l.next()
			for _, o := range w.links {
				o.asked++
			}
		}
	case l.messages > 0 && !l.waits:
		n := l.mine.Claim()
		if n < l.size {
			l.mine.Unclaim(n)
			if ret, ok := l.mine.Want(l.size); !ok {
				l.there = append(l.there, ret)
				l.waits, l.asked = true, 0
			}
			return
		}
		l.left = l.size
		if l.mine.Unclaim(n - l.size) {
			l.there = append(l.there, l.mine.Return())
		}
	}
}

// receive takes what comes next to the receiver.
func (l *reserveLink) receive() {
	if len(l.there) == 0 {
		return
	}
	next := l.there[0]
	l.there = l.there[1:]
	switch next := next.(type) {
	case Return:
		if err := l.share.Returned(next); err != nil {
			l.w.t.Fatalf("RETURN %+v: %v", next, err)
		}
	case int:
		if next > 0 {
			if !l.share.Arrived(next) {
				l.w.t.Fatal("octets beyond the grant")
			}
			l.whole += next
			return
		}
		grant, _ := l.share.Delivered(l.whole)
		l.whole, l.told = 0, l.told || grant
	}
}

func (l *reserveLink) hear() {
	if l.told {
		l.told = false
		l.back = append(l.back, l.share.Grant())
	}
	if len(l.back) == 0 || l.w.rng.IntN(2) == 0 {
		return
	}
	answer, wake, err := l.mine.Heard(l.back[0])
	l.back = l.back[1:]
	must(l.w.t, err)
	if answer {
		l.there = append(l.there, l.mine.Return())
	}
	if wake {
		l.waits = false
		if n := 4 * len(l.w.links); l.asked > n*8 {
			l.w.t.Fatalf("%d messages of others while one of %d senders waited", l.asked, len(l.w.links))
		}
	}
}

// check compares the account with what the links have.
func (w *reserveWorld) check() {
	out := int64(0)
	for _, l := range w.links {
		if !l.share.gone {
			out += l.share.outstanding()
		}
	}
	if got := w.r.Granted(); got != out || got > w.total || got < 0 {
		w.t.Fatalf("%d octets granted in the account, %d to links, %d at most", got, out, w.total)
	}
}

// run goes on until all is sent.
func (w *reserveWorld) run(cut bool) {
	for step := 0; ; step++ {
		busy := false
		for range w.links {
			l := w.links[w.rng.IntN(len(w.links))]
			switch w.rng.IntN(4) {
			case 0, 1:
				l.send()
			case 2:
				l.receive()
			case 3:
				l.hear()
			}
			if cut && w.rng.IntN(2000) == 0 {
				l.share.Leave()
				l.share.Leave()
				l.connect()
			}
		}
		w.check()
		for _, l := range w.links {
			busy = busy || l.messages > 0 || len(l.there) > 0
		}
		if !busy {
			return
		}
		if step > 100_000 {
			for i, l := range w.links {
				w.t.Logf("%d: %d messages, next %d, left %d, waits %v, out %d, want %d, keep %d, unsettled %d, there %v, back %v, mine %d %+v", i, l.messages, l.size, l.left, l.waits, l.share.outstanding(), l.share.want, l.share.keep, l.share.unsettled, l.there, l.back, l.mine.avail.Load(), l.mine.want)
			}
			w.t.Fatalf("%d links, %d free of %d: nothing goes on", len(w.links), w.r.free, w.total)
		}
	}
}

// The octets granted to all senders together are never more than the total, every
// sender gets its messages through whatever their size, in turn with the others, and what
// a sender has not used when it is idle or is cut is there for others.
func TestReservationGoesRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ links, total, most, messages int }{
		{1, 1 << 20, 1 << 10, 500}, {1, 0, 1 << 10, 100}, {2, 1 << 12, 1 << 12, 100}, {3, 5 << 12, 1 << 12, 100},
		{17, 1 << 16, 1 << 12, 20}, {64, 1 << 16, 1 << 12, 4}, {64, 1 << 20, 1 << 12, 4}, {200, 1 << 14, 1 << 14, 1}, {200, 1 << 18, 1 << 13, 2},
	} {
		for seed := range uint64(4) {
			w := newReserveWorld(t, seed, c.total, c.most, c.links, c.messages)
			if seed > 0 { // some are idle, and have what they were granted first
				for i := 0; i < c.links/2; i++ {
					w.links[i].messages = 0
				}
			}
			w.run(seed == 3)
			for _, l := range w.links {
				l.share.Leave()
			}
			if n := w.r.Granted(); n != 0 || w.r.free != w.total {
				t.Errorf("%d senders: %d octets granted to nobody", c.links, n)
			}
		}
	}
}

// A busy sender alone has half of all, n busy senders have about the same each.
func TestReservationIsShared(t *testing.T) {
	t.Parallel()
	r := NewReservation(1<<20, 1<<10)
	a := r.Join(func() {})
	if g := a.Grant().Granted; g != strangersShare {
		t.Errorf("a stranger: %d octets", g)
	}
	a.Arrived(strangersShare)
	a.Delivered(strangersShare)
	if out := a.outstanding(); out != 1<<19 {
		t.Errorf("alone: %d octets", out)
	}
	shares := []*Share{a}
	for range 15 {
		shares = append(shares, r.Join(func() {}))
	}
	for range 100 {
		for _, s := range shares { // all of it is used
			n := int(s.Bound() - s.arrived)
			if !s.Arrived(n) {
				t.Fatal("not granted")
			}
			s.Delivered(n)
		}
	}
	for i, s := range shares {
		if out := s.outstanding(); out < 1<<20/17/2 || out > 1<<20/17*2 {
			t.Errorf("share %d of 16: %d octets", i, out)
		}
	}
}

// Strangers that ask for the octets of a long message and never use them do not have more
// than half of the total and what each has for nothing. A sender that has delivered
// something goes on beside them, and a stranger's message of little length, too; when the
// strangers have gone the others of them have their turn.
func TestStrangersLeaveOctetsToOthers(t *testing.T) {
	t.Parallel()
	const total, most, strangers = 64 << 20, 1<<20 + 48, 100
	r := NewReservation(total, most)
	honest := r.Join(func() {})
	deliver := func(s *Share, n int) {
		t.Helper()
		for n > 0 {
			m := min(n, int(s.Bound()-s.arrived))
			if m == 0 {
				must(t, s.Returned(Return{Returned: s.returned, Want: uint32(n)}))
				if m = min(n, int(s.Bound()-s.arrived)); m < n {
					t.Fatalf("%d octets for a message of %d", m, n)
				}
			}
			s.Arrived(m)
			s.Delivered(m)
			n -= m
		}
	}
	deliver(honest, 1<<20)
	var all []*Share
	served := func() (n int) {
		for _, s := range all {
			if !s.gone && s.outstanding() >= most {
				n++
			}
		}
		return n
	}
	for range strangers {
		s := r.Join(func() {})
		all = append(all, s)
		must(t, s.Returned(Return{Want: most}))
	}
	if n := served(); n != total/2/most {
		t.Errorf("%d strangers were advanced a message", n)
	}
	if g := r.Granted(); g > total/2+strangers*strangersShare+honest.outstanding() {
		t.Errorf("%d octets granted", g)
	}
	for range 1000 {
		deliver(honest, most)
	}
	if honest.outstanding() < 4<<20 {
		t.Errorf("the share of a busy sender is %d octets", honest.outstanding())
	}
	deliver(r.Join(func() {}), strangersShare)
	for _, s := range all[:total/2/most] {
		s.Leave()
	}
	if n := served(); n != total/2/most {
		t.Errorf("%d other strangers were advanced a message", n)
	}
}

// What no sender that keeps to the rules says ends its connection, and costs nobody
// anything.
func TestReservationRefuses(t *testing.T) {
	t.Parallel()
	join := func() (*Reservation, *Share) {
		r := NewReservation(1<<20, 1<<10)
		s := r.Join(func() {})
		s.Arrived(1000)
		return r, s
	}
	r, s := join()
	if s.Arrived(strangersShare) {
		t.Error("octets beyond the grant arrive")
	}
	s.Leave()
	if _, urgent := s.Delivered(5); urgent || s.Returned(Return{Returned: 9}) != nil || r.Granted() != 0 {
		t.Error("a share that has ended")
	}
	for name, ret := range map[string]Return{
		"more than was granted": {Returned: strangersShare + 1},
		"what was used":         {Returned: strangersShare - 999},
		"a want too long":       {Want: 1<<10 + 1},
	} {
		r, s := join()
		if err := s.Returned(ret); !errors.Is(err, ddp.ErrNoBuffer) {
			t.Errorf("%s: %v", name, err)
		}
		if r.Granted() != strangersShare {
			t.Errorf("%s: %d octets granted", name, r.Granted())
		}
	}
	_, s = join()
	must(t, s.Returned(Return{Returned: 1000}))
	if err := s.Returned(Return{Returned: 999}); err == nil {
		t.Error("fewer octets returned than before")
	}
	var a Allowance
	if _, _, err := a.Heard(Grant{100, KeepAll}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Heard(Grant{99, KeepAll}); !errors.Is(err, ddp.ErrMSNRange) {
		t.Errorf("fewer octets granted than before: %v", err)
	}
}

// FuzzReservation gives a Share and an Allowance what no peer that keeps to the rules
// says. The account never gives more than its total, and has all when they are gone.
func FuzzReservation(f *testing.F) {
	f.Add([]byte{0, 10, 1, 20, 2, 0xff, 3, 7, 4, 200, 5, 1})
	f.Add([]byte{2, 0x80, 8 + 2, 0xff, 1, 255, 3, 3, 8 + 1, 255, 7, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		r := NewReservation(1000, 100)
		shares := []*Share{r.Join(func() {}), r.Join(func() {})}
		mine := []*Allowance{{}, {}}
		for i := 0; i+1 < len(script); i += 2 {
			k, n := int(script[i]>>3&1), int(script[i+1])
			s, a := shares[k], mine[k]
			switch script[i] & 7 {
			case 0:
				_, _, _ = a.Heard(s.Grant())
			case 1:
				if s.Arrived(n) {
					s.Delivered(n)
				} else {
					s.Leave()
				}
			case 2:
				if s.Returned(Return{Returned: s.returned + uint64(n), Want: uint32(n)}) != nil {
					s.Leave()
				}
			case 3:
				a.Unclaim(a.Claim())
			case 4:
				a.Want(n)
			case 5:
				a.Return()
			case 6:
				_, _, _ = a.Heard(Grant{Granted: uint64(n), Keep: uint32(n)})
			case 7:
				s.Leave()
				shares[k], mine[k] = r.Join(func() {}), new(Allowance)
			}
			if g := r.Granted(); g < 0 || g > 1000 {
				t.Fatalf("%d octets granted", g)
			}
			if n := a.avail.Load(); n < 0 {
				t.Fatalf("%d octets available", n)
			}
		}
		for _, s := range shares {
			s.Leave()
		}
		if g := r.Granted(); g != 0 {
			t.Fatalf("%d octets granted to nobody", g)
		}
	})
}
