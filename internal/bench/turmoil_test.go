package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/rds-go/rds/rds"
)

func TestNotePacks(t *testing.T) {
	for _, n := range []note{
		{}, {turnBad, genMask, maxTurmoil - 1, maxPlace - 1, maxPlace}, {turnShared, 1, 2, 3, 4}, {turnWrite, 0, 0, 0, maxPlace},
	} {
		if got := unpackNote(n.pack()); got != n {
			t.Errorf("%+v became %+v", n, got)
		}
	}
}

// idleTurmoil is a socket's state that has sent nothing.
func idleTurmoil() *turmoilSocket {
	w := &Work{Kind: Stress, Ops: true, Sockets: 1, Peers: 1, Depth: 1, Size: 64, Sizes: []int{64}, Reply: 64}
	c := &cell{work: w, addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.2:9")}, keys: []turmoilKeys{{Region: 7, ReadOnly: 8}}}
	local := netip.MustParseAddrPort("127.0.0.1:8")
	t := &turmoilSocket{w: w, peers: c.addrs, keys: c.keys, rng: rand.New(rand.NewPCG(1, 1)), v: newVerifier(local, kindReply), lanes: make([]lane, 1)}
	t.lanes[0] = lane{known: [][]byte{make([]byte, w.placeSize())}, sure: []bool{true}, late: []bool{false}, local: make([]byte, w.placeSize())}
	return t
}

// Whatever an exchange brings that it should not is an error.
func TestTurmoilFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   turn
		faults bool
		spoil  func(l *lane)
		want   string // text of the error; empty: none
	}{
		{"a good read", turnRead, false, func(*lane) {}, ""},
		{"another byte", turnRead, false, func(l *lane) { l.local[l.n-1] ^= 1 }, "not what is there"},
		{"a good addition", turnAdd, false, func(*lane) {}, ""},
		{"another word", turnAdd, false, func(l *lane) { l.result++ }, "the word was"},
		{"another word to swap", turnSwap, false, func(l *lane) { l.result++ }, "the word was"},
		{"a refused key", turnBad, false, func(l *lane) { l.status = rds.StatusRemoteError }, ""},
		{"a key taken that is none", turnBad, false, func(*lane) {}, "had to be refused"},
		{"a good key refused", turnWrite, false, func(l *lane) { l.status = rds.StatusRemoteError }, "fate 1"},
		{"a loss without faults", turnWrite, false, func(l *lane) { l.status = rds.StatusDropped }, "fate"},
		{"a loss with faults", turnWrite, true, func(l *lane) { l.status = rds.StatusDropped }, ""},
		{"a plain message lost", turnPlain, true, func(l *lane) { l.status = rds.StatusDropped }, "fate"},
	} {
		s := idleTurmoil()
		s.w.Faults = c.faults
		l := &s.lanes[0]
		l.kind, l.off, l.n = c.kind, 64, 100
		binary.NativeEndian.PutUint64(l.known[0][64:], 5)
		o := rds.Outgoing{To: s.peers[0]}
		s.operation(l, &o)
		switch c.kind { // what the peer does
		case turnRead:
			copy(l.local, l.known[0][l.off:][:l.n])
		case turnAdd, turnSwap:
			l.result = 5
		}
		c.spoil(l)
		err := s.end(l)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if lost := l.status == rds.StatusDropped && c.kind == turnWrite && c.faults; l.sure[0] == lost {
			t.Errorf("%s: the place is known: %t", c.name, l.sure[0])
		}
	}
}

func TestTurmoilRefusesFatesThatAreNotDue(t *testing.T) {
	s := idleTurmoil()
	fate := func(n note) error {
		_, err := s.take(&rds.Message{Kind: rds.KindStatus, Token: uint64(n.pack())})
		return err
	}
	s.lanes[0].gen = 3
	if err := fate(note{gen: 3}); err != nil {
		t.Error(err)
	}
	for _, n := range []note{{gen: 3}, {gen: 2}, {gen: 3, place: 1}} { // the first is there already
		if err := fate(n); err == nil {
			t.Errorf("%+v is taken", n)
		}
	}
}

// A message that was reported lost may have arrived: its reply changes nothing, also
// when no other exchange follows.
func TestTurmoilTakesLateReplies(t *testing.T) {
	s := idleTurmoil()
	s.w.Faults = true
	peer := newVerifier(s.peers[0], kindRequest)
	l := &s.lanes[0]
	reply := func() (*lane, error) {
		b := make([]byte, s.w.Reply)
		peer.fill(b, s.v.local, kindReply)
		putStamp(b, note{kind: l.kind, gen: l.gen}.pack())
		return s.take(&rds.Message{Kind: rds.KindData, From: s.peers[0], Data: b})
	}
	l.kind, l.fated, l.status = turnShared, true, rds.StatusDropped
	if err := s.end(l); err != nil {
		t.Fatal(err)
	}
	if got, err := reply(); got != nil || err != nil || s.acct.Late != 1 || s.acct.UnsureAdd != 1 {
		t.Errorf("%v, %v, %+v", got, err, s.acct)
	}
	*l = lane{known: l.known, sure: l.sure, late: l.late, local: l.local, gen: 1, kind: turnPlain}
	if got, err := reply(); got != l || err != nil || l.done() {
		t.Errorf("%v, %v, done %v", got, err, l.done())
	}
}

// The message of a write that was reported lost may wait for the peer to look at what
// was written: nothing is written there before it has.
func TestTurmoilLeavesPlacesOfLateMessages(t *testing.T) {
	s := idleTurmoil()
	s.w.Faults = true
	l := &s.lanes[0]
	lose := func(silent bool) {
		l.kind, l.silent, l.fated, l.status = turnWrite, silent, true, rds.StatusDropped
		if err := s.end(l); err != nil {
			t.Fatal(err)
		}
		s.choose(l)
	}
	lose(true)
	if l.kind != turnWrite || l.off != 0 || l.n != s.w.placeSize() {
		t.Errorf("after a write without a message: kind %d, %d bytes at %d", l.kind, l.n, l.off)
	}
	for range 20 {
		lose(false)
		if l.kind != turnPlain || l.silent {
			t.Fatalf("after a write with a message: kind %d, silent %t", l.kind, l.silent)
		}
		l.fated, l.reply, l.status = true, true, rds.StatusSuccess
		if err := s.end(l); err != nil {
			t.Fatal(err)
		}
		if s.choose(l); l.kind != turnWrite {
			t.Fatalf("when the peer has looked: kind %d", l.kind)
		}
	}
}

func TestBalance(t *testing.T) {
	good := account{Messages: 10, Replies: 8, Late: 1, Unsure: 2, Adds: 3, UnsureAdd: 1}
	for _, c := range []struct {
		name   string
		change func(a *account, server *snapshot)
		ok     bool
	}{
		{"good", func(*account, *snapshot) {}, true},
		{"one unsure message more", func(a *account, s *snapshot) { s.Count++; a.Late++ }, true},
		{"a message received that was not sent", func(a *account, s *snapshot) { s.Count = 11; a.Replies = 10 }, false},
		{"a message lost", func(a *account, s *snapshot) { s.Count = 7; a.Replies = 6 }, false},
		{"replies to unsure messages lost", func(a *account, _ *snapshot) { a.Replies -= 2 }, true},
		{"a reply lost", func(a *account, _ *snapshot) { a.Replies -= 3 }, false},
		{"a reply too many", func(a *account, _ *snapshot) { a.Replies++ }, false},
		{"an addition lost", func(_ *account, s *snapshot) { s.Sum = 2 }, false},
		{"an addition twice", func(_ *account, s *snapshot) { s.Sum = 5 }, false},
	} {
		a, server := good, snapshot{Count: 9, Sum: 4}
		c.change(&a, &server)
		if err := a.balance(server); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
