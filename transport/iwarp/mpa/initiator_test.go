package mpa

import (
	"bytes"
	"errors"
	"reflect"
	"syscall"
	"testing"
)

// initiate gives an initiator the octets that a responder sends.
func initiate(t testing.TB, p Params, octets []byte, step int) (rest int, s *Settled, i *Initiator, err error) {
	t.Helper()
	i, err = NewInitiator(p)
	must(t, err)
	i.AppendRequest(nil)
	for len(octets) > 0 && s == nil && err == nil {
		var n int
		n, s, err = i.Feed(octets[:min(step, len(octets))])
		octets = octets[n:]
		if s == nil && err == nil && n == 0 {
			t.Fatal("no progress")
		}
	}
	return len(octets), s, i, err
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		p          Params
	}{
		{"rping's", hexRequest + "10 02 0004 0001 0001", Params{IRD: 1, ORD: 1}},
		{"nothing", hexRequest + "10 02 0004 0000 0000", Params{}},
		{"CRC, markers, private data", hexRequest + "d0 02 0006 0002 0003 6869", Params{IRD: 2, ORD: 3, CRC: true, Markers: true, Private: []byte("hi")}},
		{"kinds of RTR need peer-to-peer", hexRequest + "10 02 0004 0000 0000", Params{RTR: 7}},
		{"peer-to-peer", hexRequest + "10 02 0004 c010 c010", Params{IRD: 16, ORD: 16, PeerToPeer: true}},
		{"two kinds", hexRequest + "10 02 0004 8010 c010", Params{IRD: 16, ORD: 16, PeerToPeer: true, RTR: RTRRead | RTRWrite}},
		{"an RTR by Read leaves ORD 0 to the responder", hexRequest + "10 02 0004 8000 4000", Params{PeerToPeer: true, RTR: RTRRead}},
		{"revision 1", hexRequest + "40 01 0002 6869", Params{Rev: 1, IRD: 1, ORD: 1, CRC: true, PeerToPeer: true, Private: []byte("hi")}},
	} {
		i, err := NewInitiator(c.p)
		must(t, err)
		if got := i.AppendRequest([]byte("x")); !bytes.Equal(got[1:], unhex(t, c.want)) {
			t.Errorf("%s\n%x, want\n%x", c.name, got[1:], unhex(t, c.want))
		}
	}
}

// Terms of most tests.
var (
	plain = Params{IRD: 4, MaxIRD: 8, ORD: 4}
	byRTR = Params{IRD: 4, MaxIRD: 8, ORD: 4, PeerToPeer: true, RTR: 7}
	rev1  = with(plain, func(p *Params) { p.Rev = 1 })
)

func with(p Params, f func(*Params)) Params { f(&p); return p }

// settled is what plain terms of both sides settle, but for what f changes.
func settled(f func(*Settled)) *Settled {
	s := &Settled{Rev: 2, IRD: 4, ORD: 4, Enhanced: true, Peer: Prefix{IRD: 4, ORD: 4}, PeerPrivate: []byte{}}
	f(s)
	return s
}

// Every row of the decisions about a Reply, RFC 5044 section 7.1, RFC 6581
// sections 6 and 9. Time and the end of the connection are the caller's.
var replies = []struct {
	name, reply string
	p           Params
	want        *Settled
	err         error
	retry       bool
}{
	{name: "accepted", reply: hexReply + "10 02 0004 0004 0004", p: plain, want: settled(func(*Settled) {})},
	{name: "reserved bits", reply: hexReply + "1f 02 0004 0004 0004", p: plain, want: settled(func(*Settled) {})},
	{name: "private data", reply: hexReply + "10 02 0006 0004 0004 6869", p: plain, want: settled(func(s *Settled) { s.PeerPrivate = []byte("hi") })},

	{name: "wrong key", reply: "4d50412049442052657020467261 6d66 10 02 0004 0004 0004", p: plain, err: ErrKey},
	{name: "some other protocol", reply: "53", p: plain, err: ErrKey},
	{name: "a Request: both sides are initiators", reply: hexRequest + "10 02 0004 0004 0004", p: plain, err: ErrRole},
	{name: "revision 3", reply: hexReply + "10 03 0004 0004 0004", p: plain, err: ErrRevision},
	{name: "revision 0", reply: hexReply + "00 00 0000", p: rev1, err: ErrRevision},
	{name: "too much private data", reply: hexReply + "10 02 0201", p: plain, err: ErrPrivate},
	{name: "too much private data for us", reply: hexReply + "10 02 0101", p: with(plain, func(p *Params) { p.MaxPrivate = 256 }), err: ErrPrivate},

	{name: "rejected", reply: hexReply + "30 02 0006 0010 0011 6e6f", p: plain,
		err: &RejectedError{Rev: 2, Enhanced: true, Peer: Prefix{IRD: 16, ORD: 17}, Private: []byte("no")}},
	{name: "rejected, S missing: nothing is stripped", reply: hexReply + "20 01 0006 0010 0011 6e6f", p: plain,
		err: &RejectedError{Rev: 1, Private: []byte{0, 16, 0, 17, 'n', 'o'}}},
	{name: "rejected, prefix cut short", reply: hexReply + "30 02 0002 0010", p: plain, err: &RejectedError{Rev: 2}},
	{name: "rejected, markers asked for", reply: hexReply + "b0 02 0004 0000 0000", p: with(plain, func(p *Params) { p.NoMarkers = true }),
		err: &RejectedError{Rev: 2, Enhanced: true, Private: []byte{}}},

	{name: "markers", reply: hexReply + "90 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.SendMarkers = true })},
	{name: "markers refused", reply: hexReply + "90 02 0004 0004 0004", p: with(plain, func(p *Params) { p.NoMarkers = true }), err: ErrMarkers},
	{name: "markers asked for by us", reply: hexReply + "10 02 0004 0004 0004", p: with(plain, func(p *Params) { p.Markers = true }),
		want: settled(func(s *Settled) { s.ReceiveMarkers = true })},
	{name: "CRC by the peer", reply: hexReply + "50 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.CRC = true })},
	{name: "CRC by us", reply: hexReply + "10 02 0004 0004 0004", p: with(plain, func(p *Params) { p.CRC = true }), want: settled(func(s *Settled) { s.CRC = true })},

	{name: "S missing", reply: hexReply + "00 02 0004 0004 0004", p: plain, err: ErrEnhanced},
	{name: "revision 1", reply: hexReply + "00 01 0000", p: plain, err: ErrEnhanced, retry: true},
	{name: "revision 1 with S", reply: hexReply + "10 01 0004 0004 0004", p: plain, err: ErrEnhanced, retry: true},
	{name: "S though we had none", reply: hexReply + "10 02 0004 0004 0004", p: rev1, err: ErrEnhanced},
	{name: "no prefix", reply: hexReply + "10 02 0000", p: plain, err: ErrPrefix},
	{name: "half a prefix", reply: hexReply + "10 02 0002 0004", p: plain, err: ErrPrefix},
	{name: "our revision 1", reply: hexReply + "00 01 0002 6869", p: rev1,
		want: &Settled{Rev: 1, IRD: 4, ORD: 4, PeerPrivate: []byte("hi")}},
	{name: "our revision 1, S is a reserved bit", reply: hexReply + "10 01 0004 0004 0004", p: rev1,
		want: &Settled{Rev: 1, IRD: 4, ORD: 4, PeerPrivate: []byte{0, 4, 0, 4}}},

	{name: "its ORD above our IRD", reply: hexReply + "10 02 0004 0004 0008", p: plain,
		want: settled(func(s *Settled) { s.IRD = 8; s.Peer.ORD = 8 })},
	{name: "its ORD above our limit", reply: hexReply + "50 02 0004 0004 0009", p: plain, err: ErrIRD,
		want: settled(func(s *Settled) { s.CRC = true; s.IRD = 9; s.Peer.ORD = 9 })},
	{name: "its ORD below our IRD", reply: hexReply + "10 02 0004 0004 0001", p: plain, want: settled(func(s *Settled) { s.Peer.ORD = 1 })},
	{name: "its IRD below our ORD", reply: hexReply + "10 02 0004 0003 0004", p: plain,
		want: settled(func(s *Settled) { s.ORD = 3; s.Peer.IRD = 3 })},
	{name: "its IRD is 0", reply: hexReply + "10 02 0004 0000 0004", p: plain, want: settled(func(s *Settled) { s.ORD = 0; s.Peer.IRD = 0 })},
	{name: "its IRD above our ORD", reply: hexReply + "10 02 0004 0080 0004", p: plain, want: settled(func(s *Settled) { s.Peer.IRD = 128 })},
	{name: "neither is negotiated", reply: hexReply + "10 02 0004 3fff 3fff", p: plain,
		want: settled(func(s *Settled) { s.Peer = Prefix{IRD: NotNegotiated, ORD: NotNegotiated} })},

	{name: "peer-to-peer though we did not ask", reply: hexReply + "10 02 0004 8004 c004", p: plain,
		want: settled(func(s *Settled) { s.Peer.PeerToPeer = true; s.Peer.RTR = RTRWrite | RTRRead })},
	{name: "B, C, D without A and not asked for", reply: hexReply + "10 02 0004 4004 c004", p: plain,
		want: settled(func(s *Settled) { s.Peer.RTR = 7 })},
	{name: "all kinds of RTR", reply: hexReply + "10 02 0004 c004 c004", p: byRTR,
		want: settled(func(s *Settled) { s.PeerToPeer, s.RTR = true, RTRRead; s.Peer.PeerToPeer, s.Peer.RTR = true, 7 })},
	{name: "our preference", reply: hexReply + "10 02 0004 c004 c004", p: with(byRTR, func(p *Params) { p.Prefer = RTRSend }),
		want: settled(func(s *Settled) { s.PeerToPeer, s.RTR = true, RTRSend; s.Peer.PeerToPeer, s.Peer.RTR = true, 7 })},
	{name: "one in common", reply: hexReply + "10 02 0004 8004 8004", p: byRTR,
		want: settled(func(s *Settled) {
			s.PeerToPeer, s.RTR = true, RTRWrite
			s.Peer.PeerToPeer, s.Peer.RTR = true, RTRWrite
		})},
	{name: "a Read RTR and no place for it", reply: hexReply + "10 02 0004 8000 c004", p: byRTR,
		want: settled(func(s *Settled) {
			s.PeerToPeer, s.RTR, s.ORD = true, RTRWrite, 0
			s.Peer = Prefix{ORD: 4, PeerToPeer: true, RTR: RTRWrite | RTRRead}
		})},
	{name: "a Read RTR and a place for it alone", reply: hexReply + "10 02 0004 8001 c000", p: with(byRTR, func(p *Params) { p.ORD = 0 }),
		want: settled(func(s *Settled) {
			s.PeerToPeer, s.RTR, s.ORD = true, RTRRead, 1
			s.Peer = Prefix{IRD: 1, PeerToPeer: true, RTR: RTRWrite | RTRRead}
		})},
	{name: "only a Read RTR and no place for it", reply: hexReply + "10 02 0004 8000 4004", p: byRTR, err: ErrRTR,
		want: settled(func(s *Settled) { s.ORD = 0; s.Peer = Prefix{ORD: 4, PeerToPeer: true, RTR: RTRRead} })},
	{name: "none in common", reply: hexReply + "50 02 0004 c004 0004", p: with(byRTR, func(p *Params) { p.RTR = RTRRead | RTRWrite }), err: ErrRTR,
		want: settled(func(s *Settled) { s.CRC = true; s.Peer.PeerToPeer, s.Peer.RTR = true, RTRSend })},
	{name: "none offered", reply: hexReply + "10 02 0004 8004 0004", p: byRTR, err: ErrRTR,
		want: settled(func(s *Settled) { s.Peer.PeerToPeer = true })},
	{name: "A missing", reply: hexReply + "10 02 0004 4004 c004", p: byRTR, err: ErrRTR,
		want: settled(func(s *Settled) { s.Peer.RTR = 7 })},
}

func TestInitiatorDecides(t *testing.T) {
	t.Parallel()
	for _, c := range replies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, step := range []int{1, 7, 1 << 10} {
				_, s, i, err := initiate(t, c.p, unhex(t, c.reply), step)
				if !reflect.DeepEqual(err, c.err) {
					t.Errorf("steps of %d: error %v, want %v", step, err, c.err)
				}
				if !reflect.DeepEqual(s, c.want) {
					t.Errorf("steps of %d:\n%+v, want\n%+v", step, s, c.want)
				}
				if i.RetryRev1() != c.retry {
					t.Errorf("retry with revision 1: %v", i.RetryRev1())
				}
			}
		})
	}
}

// A responder like siw sends FPDUs at once, in the same segment.
func TestInitiatorLeavesWhatFollowsTheReply(t *testing.T) {
	t.Parallel()
	octets := append(unhex(t, frames[1].hex), AppendFPDU(nil, send(1, 16), false)...)
	for step := 1; step <= len(octets); step++ {
		rest, s, i, err := initiate(t, Params{IRD: 1, ORD: 1}, octets, step)
		if err != nil || s == nil || rest != FPDULen(34) {
			t.Fatalf("steps of %d: %d octets left, %v", step, rest, err)
		}
		p := Parser{CRC: s.CRC, Markers: s.ReceiveMarkers}
		checkDelivery(t, &p, [][]byte{octets[len(octets)-rest:]}, [][]byte{send(1, 16)})
		if n, s, err := i.Feed(octets); n != 0 || s != nil || !errors.Is(err, ErrTurn) {
			t.Errorf("fed once more: %d, %v, %v", n, s, err)
		}
	}
}

func TestFallbackToRevision1(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reply string
		rev         uint8
		want        bool
	}{
		{"closed without a word", "", 2, true},
		{"closed after an octet", "4d", 2, false},
		{"nothing older than revision 1", "", 1, false},
		{"rejected", hexReply + "30 02 0004 0000 0000", 2, false},
		{"accepted", hexReply + "10 02 0004 0000 0000", 2, false},
		{"answer of revision 1", hexReply + "00 01 0000", 2, true},
		{"answer of revision 3", hexReply + "00 03 0000", 2, false},
	} {
		_, _, i, _ := initiate(t, Params{Rev: c.rev}, unhex(t, c.reply), 64)
		if got := i.RetryRev1(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRejectionIsARefusedConnection(t *testing.T) {
	t.Parallel()
	_, _, _, err := initiate(t, Params{}, unhex(t, hexReply+"30 02 0006 0001 0001 6e6f"), 64)
	var rejected *RejectedError
	if !errors.As(err, &rejected) || string(rejected.Private) != "no" {
		t.Errorf("error %#v", err)
	}
	if !errors.Is(err, ErrRejected) || !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != "mpa: rejected by the peer" {
		t.Errorf("error %v", err)
	}
}

func TestInitiatorStaysFailed(t *testing.T) {
	t.Parallel()
	_, _, i, err := initiate(t, Params{}, []byte("HTTP"), 64)
	if _, s, again := i.Feed(unhex(t, frames[1].hex)); again != err || s != nil || err == nil {
		t.Errorf("%v, then %v", err, again)
	}
}

// siw uses as many slots as the next power of two.
func TestReadSlots(t *testing.T) {
	t.Parallel()
	for ird, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 127: 128, 128: 128, MaxReads: 16384} {
		if got := (&Settled{IRD: ird}).ReadSlots(); got != want {
			t.Errorf("IRD %d: %d, want %d", ird, got, want)
		}
	}
}
