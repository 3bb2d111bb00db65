package mpa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// respond gives a responder the octets of a Request and, when it has come,
// accepts it on the listener's own terms.
func respond(t testing.TB, p Params, octets []byte, step int) (reply []byte, s *Settled, err error) {
	t.Helper()
	r, err := NewResponder(p)
	must(t, err)
	for len(octets) > 0 && err == nil {
		n := min(step, len(octets))
		var q *Request
		q, err = r.Feed(octets[:n])
		octets = octets[n:]
		if err == nil && (q != nil) != (len(octets) == 0) {
			t.Fatalf("Request %+v with %d octets to come", q, len(octets))
		}
	}
	if err == nil {
		s, err = r.Accept(p)
	}
	return r.Reply(), s, err
}

// asked is a responder that a Request has come to.
func asked(t testing.TB, p Params, request []byte) *Responder {
	t.Helper()
	r, err := NewResponder(p)
	must(t, err)
	_, err = r.Feed(request)
	must(t, err)
	return r
}

// settledByRTR is settled of terms with these kinds of RTR.
func settledByRTR(rtr, theirs RTR) *Settled {
	return settled(func(s *Settled) { s.PeerToPeer, s.RTR, s.Peer.PeerToPeer, s.Peer.RTR = true, rtr, true, theirs })
}

// Every row of the decisions about a Request, RFC 5044 section 7.1, RFC 6581
// sections 6 and 9. Time and the end of the connection are the caller's.
var requests = []struct {
	name, request, reply string
	p                    Params
	want                 *Settled
	err                  error
}{
	{name: "accepted", request: "10 02 0004 0004 0004", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(*Settled) {})},
	{name: "private data", request: "10 02 0006 0004 0004 6869", reply: "10 02 0005 0004 0004 21", p: with(plain, func(p *Params) { p.Private = []byte("!") }),
		want: settled(func(s *Settled) { s.PeerPrivate = []byte("hi") })},
	{name: "row 14, R and reserved bits are not echoed", request: "3f 02 0004 0004 0004", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(*Settled) {})},

	{name: "row 6, revision 0", request: "00 00 0000", p: plain, err: ErrRevision},
	{name: "row 5, revision 3", request: "10 03 0004", p: plain, err: ErrRevision},
	{name: "revision 2 where only 1 is spoken", request: "10 02 0004", p: with(plain, func(p *Params) { p.Rev = 1 }), err: ErrRevision},
	{name: "row 10, 513 octets of private data", request: "10 02 0201", p: plain, err: ErrPrivate},
	{name: "257 where 256 is the limit", request: "10 02 0101", p: with(plain, func(p *Params) { p.MaxPrivate = 256 }), err: ErrPrivate},
	{name: "512 octets of private data", request: "00 01 0200" + strings.Repeat("55", 512), reply: "00 01 0000", p: plain,
		want: &Settled{Rev: 1, IRD: 4, ORD: 4, PeerPrivate: bytes.Repeat([]byte{0x55}, 512)}},

	{name: "row 7, revision 1", request: "00 01 0002 6869", reply: "00 01 0000", p: plain,
		want: &Settled{Rev: 1, IRD: 4, ORD: 4, PeerPrivate: []byte("hi")}},
	{name: "row 8, revision 1 with S", request: "10 01 0002 6869", reply: "00 01 0000", p: plain,
		want: &Settled{Rev: 1, IRD: 4, ORD: 4, PeerPrivate: []byte("hi")}},
	{name: "revision 2 without S", request: "00 02 0004 0001 0001", reply: "00 02 0000", p: plain,
		want: &Settled{Rev: 2, IRD: 4, ORD: 4, PeerPrivate: []byte{0, 1, 0, 1}}},
	{name: "row 9, no prefix", request: "10 02 0000", reply: "30 02 0004 0008 0004", p: plain, err: ErrPrefix},
	{name: "row 9, half a prefix", request: "10 02 0002 0004", reply: "30 02 0004 0008 0004", p: plain, err: ErrPrefix},

	{name: "markers", request: "90 02 0004 0004 0004", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.SendMarkers = true })},
	{name: "row 13, markers refused", request: "90 02 0004 0004 0004", reply: "30 02 0004 0008 0004",
		p: with(plain, func(p *Params) { p.NoMarkers = true }), err: ErrMarkers},
	{name: "markers refused in revision 1", request: "80 01 0000", reply: "20 01 0000", p: with(plain, func(p *Params) { p.NoMarkers = true }), err: ErrMarkers},
	{name: "markers asked for by us", request: "10 02 0004 0004 0004", reply: "90 02 0004 0004 0004", p: with(plain, func(p *Params) { p.Markers = true }),
		want: settled(func(s *Settled) { s.ReceiveMarkers = true })},
	{name: "CRC", request: "50 02 0004 0004 0004", reply: "50 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.CRC = true })},
	{name: "row 16, CRC and the control flag C are two things", request: "50 02 0004 0004 8004", reply: "50 02 0004 0004 0004", p: plain,
		want: settled(func(s *Settled) { s.CRC = true; s.Peer.RTR = RTRWrite })},
	{name: "CRC by us", request: "10 02 0004 0004 0004", reply: "50 02 0004 0004 0004", p: with(plain, func(p *Params) { p.CRC = true }),
		want: settled(func(s *Settled) { s.CRC = true })},

	{name: "its ORD above our IRD", request: "10 02 0004 0004 0008", reply: "10 02 0004 0008 0004", p: plain,
		want: settled(func(s *Settled) { s.IRD, s.Peer.ORD = 8, 8 })},
	{name: "its ORD above our limit", request: "10 02 0004 0004 0009", reply: "30 02 0004 0008 0004", p: plain, err: ErrDepth},
	{name: "its ORD below our IRD", request: "10 02 0004 0004 0001", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.Peer.ORD = 1 })},
	{name: "its IRD below our ORD", request: "10 02 0004 0003 0004", reply: "10 02 0004 0004 0003", p: plain,
		want: settled(func(s *Settled) { s.ORD, s.Peer.IRD = 3, 3 })},
	{name: "its IRD above our ORD", request: "10 02 0004 0080 0004", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.Peer.IRD = 128 })},
	{name: "row 17, neither is negotiated", request: "10 02 0004 3fff 3fff", reply: "10 02 0004 3fff 3fff", p: plain,
		want: settled(func(s *Settled) { s.Peer = Prefix{IRD: NotNegotiated, ORD: NotNegotiated} })},
	{name: "row 17, its IRD is not negotiated", request: "10 02 0004 3fff 0005", reply: "10 02 0004 0005 3fff", p: plain,
		want: settled(func(s *Settled) { s.IRD, s.Peer = 5, Prefix{IRD: NotNegotiated, ORD: 5} })},
	{name: "row 17, its ORD is not negotiated", request: "10 02 0004 0002 3fff", reply: "10 02 0004 3fff 0002", p: plain,
		want: settled(func(s *Settled) { s.ORD, s.Peer = 2, Prefix{IRD: 2, ORD: NotNegotiated} })},

	{name: "peer-to-peer", request: "10 02 0004 8004 c004", reply: "10 02 0004 8004 c004", p: plain, want: settledByRTR(RTRWrite|RTRRead, RTRWrite|RTRRead)},
	{name: "peer-to-peer, what is common", request: "10 02 0004 c004 4004", reply: "10 02 0004 c004 4004", p: plain, want: settledByRTR(RTRSend|RTRRead, RTRSend|RTRRead)},
	{name: "peer-to-peer, all kinds taken", request: "10 02 0004 c004 c004", reply: "10 02 0004 c004 c004", p: with(plain, func(p *Params) { p.RTR = 7 }), want: settledByRTR(7, 7)},
	{name: "peer-to-peer by a Send", request: "10 02 0004 c004 0004", reply: "10 02 0004 c004 0004", p: plain, want: settledByRTR(RTRSend, RTRSend)},
	{name: "peer-to-peer, nothing common", request: "10 02 0004 c004 0004", reply: "10 02 0004 8004 c004", p: with(plain, func(p *Params) { p.RTR = RTRWrite | RTRRead }), want: settledByRTR(RTRWrite|RTRRead, RTRSend)},
	{name: "row 15, peer-to-peer without a kind", request: "10 02 0004 8004 0004", reply: "10 02 0004 c004 c004", p: plain, want: settledByRTR(7, 0)},
	{name: "B, C, D without A", request: "10 02 0004 4004 c004", reply: "10 02 0004 0004 0004", p: plain, want: settled(func(s *Settled) { s.Peer.RTR = 7 })},
	{name: "a Read RTR raises our IRD", request: "10 02 0004 8004 4000", reply: "10 02 0004 8001 4000", p: Params{MaxIRD: 1},
		want: &Settled{Rev: 2, IRD: 1, Enhanced: true, PeerPrivate: []byte{}, PeerToPeer: true, RTR: RTRRead,
			Peer: Prefix{IRD: 4, PeerToPeer: true, RTR: RTRRead}}},
	{name: "a Read RTR raises our IRD unsaid", request: "10 02 0004 8004 7fff", reply: "10 02 0004 bfff 4000", p: Params{MaxIRD: 1},
		want: &Settled{Rev: 2, IRD: 1, Enhanced: true, PeerPrivate: []byte{}, PeerToPeer: true, RTR: RTRRead,
			Peer: Prefix{IRD: 4, ORD: NotNegotiated, PeerToPeer: true, RTR: RTRRead}}},
	{name: "no Read RTR without an IRD", request: "10 02 0004 8004 c000", reply: "10 02 0004 8000 8000", p: Params{},
		want: &Settled{Rev: 2, Enhanced: true, PeerPrivate: []byte{}, PeerToPeer: true, RTR: RTRWrite,
			Peer: Prefix{IRD: 4, PeerToPeer: true, RTR: RTRWrite | RTRRead}}},
	{name: "a Write where only Reads are taken and none can be", request: "10 02 0004 8004 4000", reply: "10 02 0004 8000 8000", p: Params{RTR: RTRRead},
		want: &Settled{Rev: 2, Enhanced: true, PeerPrivate: []byte{}, PeerToPeer: true, RTR: RTRWrite,
			Peer: Prefix{IRD: 4, PeerToPeer: true, RTR: RTRRead}}},
}

func TestResponderDecides(t *testing.T) {
	t.Parallel()
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var want []byte
			if c.reply != "" {
				want = unhex(t, hexReply+c.reply)
			}
			request := unhex(t, hexRequest+c.request)
			for _, step := range []int{1, 7, 1 << 10} { // row 18
				reply, s, err := respond(t, c.p, request, step)
				if !errors.Is(err, c.err) {
					t.Errorf("steps of %d: error %v, want %v", step, err, c.err)
				}
				if !bytes.Equal(reply, want) {
					t.Errorf("steps of %d: Reply\n%x, want\n%x", step, reply, want)
				}
				if !reflect.DeepEqual(s, c.want) {
					t.Errorf("steps of %d:\n%+v, want\n%+v", step, s, c.want)
				}
			}
		})
	}
}

// Rows 3 and 4: no Reply to what is no Request, at the first octet that shows it.
func TestResponderIsSilentTowardsStrangers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, octets string
		at           int
		want         error
	}{
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", 1, ErrKey},
		{"the draft's third frame", "MPA ID RtR Frame", 9, ErrKey},
		{"a Reply: both sides are initiators", replyKey, 16, ErrRole},
		{"half a Reply", "MPA ID Rep F0", 13, ErrKey},
	} {
		r, err := NewResponder(Params{})
		must(t, err)
		for i := range c.at {
			q, err := r.Feed([]byte(c.octets[i : i+1]))
			if want := error(nil); i == c.at-1 && err != c.want || i < c.at-1 && err != want || q != nil {
				t.Errorf("%s, octet %d: %+v, %v", c.name, i, q, err)
			}
		}
		if _, err := r.Feed(unhex(t, frames[0].hex)); err != c.want || r.Reply() != nil {
			t.Errorf("%s: then %v, Reply %x", c.name, err, r.Reply())
		}
	}
}

// Rows 1, 2 and 11: what never comes is waited for, until the caller's timer.
func TestResponderWaits(t *testing.T) {
	t.Parallel()
	request := unhex(t, hexRequest+"10 02 0008 0001 0001 61626364")
	for n := range request {
		r, err := NewResponder(Params{IRD: 1, ORD: 1})
		must(t, err)
		if q, err := r.Feed(request[:n]); q != nil || err != nil || r.Reply() != nil {
			t.Errorf("%d octets: %+v, %v, Reply %x", n, q, err, r.Reply())
		}
		if _, err := r.Accept(Params{}); err != ErrTurn {
			t.Errorf("%d octets: accepted, %v", n, err)
		}
		if err := r.Reject(nil); err != ErrTurn {
			t.Errorf("%d octets: rejected, %v", n, err)
		}
	}
}

// Row 12: an initiator waits for the Reply before it sends more.
func TestResponderRefusesPipelining(t *testing.T) {
	t.Parallel()
	request := unhex(t, frames[0].hex)
	for _, pieces := range [][][]byte{{append(bytes.Clone(request), 0)}, {request, {0}}, split(append(bytes.Clone(request), 0), 1)} {
		r, err := NewResponder(Params{IRD: 1, ORD: 1})
		must(t, err)
		for i, b := range pieces {
			_, err = r.Feed(b)
			if (i == len(pieces)-1) != (err != nil) {
				t.Errorf("piece %d of %d: %v", i, len(pieces), err)
			}
		}
		if err != ErrPipelined || r.Reply() != nil {
			t.Errorf("error %v, Reply %x", err, r.Reply())
		}
		if _, err := r.Accept(Params{IRD: 1, ORD: 1}); err != ErrTurn {
			t.Errorf("then accepted: %v", err)
		}
	}
}

func TestUpperLayerSeesTheRequest(t *testing.T) {
	t.Parallel()
	r, err := NewResponder(Params{IRD: 1, ORD: 1})
	must(t, err)
	want := &Request{Rev: 2, CRC: true, Markers: true, Enhanced: true, Private: []byte("hi"),
		Peer: Prefix{IRD: 1, ORD: 2, PeerToPeer: true, RTR: RTRRead}}
	q, err := r.Feed(unhex(t, hexRequest+"d0 02 0006 8001 4002 6869"))
	if err != nil || !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, %v, want %+v", q, err, want)
	}
	if again, err := r.Feed(nil); again != q || err != nil {
		t.Errorf("asked again: %+v, %v", again, err)
	}
}

func TestUpperLayerRejects(t *testing.T) {
	t.Parallel()
	reason := bytes.Repeat([]byte{0x77}, MaxReplyPrivate)
	for _, c := range []struct {
		name, request, want string
		p                   Params
		reason              []byte
		err                 error
	}{
		{"enhanced", "50 02 0004 8001 c001", "30 02 0006 0008 0004 6e6f", Params{IRD: 4, MaxIRD: 8, ORD: 4}, []byte("no"), nil},
		{"without a reason", "10 02 0004 0001 0001", "30 02 0004 0000 0000", Params{}, nil, nil},
		{"revision 1", "00 01 0000", "20 01 0002 6e6f", Params{}, []byte("no"), nil},
		{"revision 2 without S", "00 02 0000", "20 02 0002 6e6f", Params{}, []byte("no"), nil},
		{"the longest reason", "10 02 0004 0001 0001", "30 02 0100 0000 0000" + strings.Repeat("77", 252), Params{}, reason[:252], nil},
		{"a longer one", "10 02 0004 0001 0001", "", Params{}, reason[:253], ErrPrivate},
		{"the longest reason in revision 1", "00 01 0000", "20 01 0100" + strings.Repeat("77", 256), Params{}, reason, nil},
		{"a longer one than the listener's limit", "00 01 0000", "", Params{MaxPrivate: 8}, reason[:9], ErrPrivate},
	} {
		r := asked(t, c.p, unhex(t, hexRequest+c.request))
		if err := r.Reject(c.reason); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if c.err != nil {
			if r.Reply() != nil {
				t.Errorf("%s: Reply %x", c.name, r.Reply())
			}
			if err := r.Reject(nil); err != nil || r.Reply() == nil {
				t.Errorf("%s: cannot be rejected any more: %v", c.name, err)
			}
			continue
		}
		if want := unhex(t, hexReply+c.want); !bytes.Equal(r.Reply(), want) {
			t.Errorf("%s: Reply\n%x, want\n%x", c.name, r.Reply(), want)
		}
		if _, err := r.Accept(Params{}); err != ErrTurn {
			t.Errorf("%s: then accepted: %v", c.name, err)
		}
		if _, err := r.Feed([]byte{0}); err != ErrTurn {
			t.Errorf("%s: then fed: %v", c.name, err)
		}
	}
}

// What does not fit siw is refused before anything happens.
func TestAcceptChecksItsParameters(t *testing.T) {
	t.Parallel()
	r := asked(t, Params{IRD: 1, ORD: 1}, unhex(t, frames[0].hex))
	for _, c := range []struct {
		p    Params
		want error
	}{
		{Params{IRD: NotNegotiated}, ErrRange},
		{Params{IRD: 1, Private: make([]byte, 253)}, ErrPrivate},
		{Params{IRD: 1, Private: make([]byte, 5), MaxPrivate: 8}, ErrPrivate},
	} {
		if s, err := r.Accept(c.p); s != nil || !errors.Is(err, c.want) || r.Reply() != nil {
			t.Errorf("%+v: %+v, %v, Reply %x", c.p, s, err, r.Reply())
		}
	}
	s, err := r.Accept(Params{IRD: 1, ORD: 1, Private: make([]byte, 252)})
	if err != nil || s == nil || hex.EncodeToString(r.Reply()[16:24]) != "1002010000010001" {
		t.Errorf("%+v, %v, Reply %x", s, err, r.Reply())
	}
}

// The terms may depend on who asks: here markers are refused after all.
func TestAcceptRefusesMarkers(t *testing.T) {
	t.Parallel()
	r := asked(t, Params{}, unhex(t, hexRequest+"80 01 0000"))
	if s, err := r.Accept(Params{NoMarkers: true}); s != nil || err != ErrMarkers {
		t.Errorf("%+v, %v", s, err)
	}
	if want := unhex(t, hexReply+"20 01 0000"); !bytes.Equal(r.Reply(), want) {
		t.Errorf("Reply %x, want %x", r.Reply(), want)
	}
}
