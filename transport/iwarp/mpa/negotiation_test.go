package mpa

import (
	"errors"
	"fmt"
	"testing"
)

// negotiate lets both machines talk and returns what each has settled.
func negotiate(t testing.TB, ip, rp Params) (is, rs *Settled, ierr, rerr error) {
	t.Helper()
	i, err := NewInitiator(ip)
	must(t, err)
	r, err := NewResponder(rp)
	must(t, err)
	if _, rerr = r.Feed(i.AppendRequest(nil)); rerr == nil {
		rs, rerr = r.Accept(rp)
	}
	if r.Reply() == nil {
		return nil, nil, nil, rerr
	}
	n, is, ierr := i.Feed(r.Reply())
	if n != len(r.Reply()) {
		t.Errorf("%d of %d octets of the Reply were taken", n, len(r.Reply()))
	}
	return is, rs, ierr, rerr
}

// checkPair looks at what must hold between two sides that have settled.
func checkPair(i, r *Settled) error {
	switch {
	case i.CRC != r.CRC:
		return fmt.Errorf("CRC: initiator %v, responder %v", i.CRC, r.CRC)
	case i.SendMarkers != r.ReceiveMarkers || i.ReceiveMarkers != r.SendMarkers:
		return fmt.Errorf("markers: %+v and %+v", i, r)
	case i.Rev != r.Rev || i.Enhanced != r.Enhanced || i.PeerToPeer != r.PeerToPeer:
		return fmt.Errorf("model: %+v and %+v", i, r)
	case i.Enhanced && (i.ORD > r.IRD || r.ORD > i.IRD):
		return fmt.Errorf("a side has more RDMA Reads under way than the other holds: %+v and %+v", i, r)
	case i.PeerToPeer && (i.RTR == 0 || i.RTR&(i.RTR-1) != 0 || i.RTR&r.RTR == 0):
		return fmt.Errorf("RTR: %v of %v", i.RTR, r.RTR)
	case i.RTR == RTRRead && (r.IRD < 1 || i.ORD < 1):
		return fmt.Errorf("no place for the RTR: %+v and %+v", i, r)
	}
	return nil
}

// Any two of us agree, whatever each wishes, unless a wish cannot be met.
func TestBothSidesAgree(t *testing.T) {
	t.Parallel()
	var all []Params
	for _, rev := range []uint8{1, 2} {
		for flags := range 16 {
			for _, reads := range [][3]int{{0, 0, 0}, {0, 4, 0}, {1, 1, 1}, {4, 8, 8}, {16, 16, 4}} {
				for _, rtr := range []RTR{RTRSend, RTRWrite, RTRRead, RTRWrite | RTRRead} {
					all = append(all, Params{
						Rev: rev, CRC: flags&1 != 0, Markers: flags&2 != 0, NoMarkers: flags&4 != 0, PeerToPeer: flags&8 != 0,
						IRD: reads[0], MaxIRD: reads[1], ORD: reads[2], RTR: rtr,
					})
				}
			}
		}
	}
	settled := 0
	for _, ip := range all {
		for _, rp := range all {
			i, r, ierr, rerr := negotiate(t, ip, rp)
			switch {
			case ierr == nil && rerr == nil && i != nil:
				settled++
				if err := checkPair(i, r); err != nil {
					t.Fatalf("%+v meets %+v: %v", ip, rp, err)
				}
			case rerr == ErrRevision && ip.Rev > rp.Rev:
			case rerr == ErrMarkers && ip.Markers && rp.NoMarkers && errors.Is(ierr, ErrRejected):
			case rerr == ErrDepth && ip.ORD > rp.MaxIRD && errors.Is(ierr, ErrRejected):
			case ierr == ErrMarkers && ip.NoMarkers && rp.Markers:
			case ierr == ErrRTR && ip.PeerToPeer && r.RTR&ip.RTR == 0:
			default:
				t.Fatalf("%+v meets %+v: %v, %v", ip, rp, ierr, rerr)
			}
		}
	}
	if settled < len(all)*len(all)/4 {
		t.Errorf("only %d of %d pairs agreed", settled, len(all)*len(all))
	}
}

// A responder holds no more than it was asked to, an initiator raises its IRD
// only for one that insists; ours never does.
func TestReadsBetweenUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		ip, rp     Params
		iIRD, iORD int
		rIRD, rORD int
		want       error
	}{
		{"equal", Params{IRD: 16, ORD: 16}, Params{IRD: 16, ORD: 16}, 16, 16, 16, 16, nil},
		{"the responder's ORD is cut", Params{IRD: 2, ORD: 1}, Params{IRD: 8, ORD: 8}, 2, 1, 8, 2, nil},
		{"the responder's IRD is raised", Params{IRD: 1, ORD: 8}, Params{IRD: 2, MaxIRD: 8, ORD: 1}, 1, 8, 8, 1, nil},
		{"the responder's IRD does not reach", Params{IRD: 1, ORD: 8}, Params{IRD: 2, ORD: 1}, 0, 0, 0, 0, ErrDepth},
		{"one way", Params{ORD: 4}, Params{IRD: 4, ORD: 9}, 0, 4, 4, 0, nil},
	} {
		i, r, _, err := negotiate(t, c.ip, c.rp)
		if err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err == nil && (i.IRD != c.iIRD || i.ORD != c.iORD || r.IRD != c.rIRD || r.ORD != c.rORD) {
			t.Errorf("%s: initiator %d, %d, responder %d, %d", c.name, i.IRD, i.ORD, r.IRD, r.ORD)
		}
	}
}

// An initiator that meets a responder of revision 1 finds nothing but a closed
// connection; its second attempt succeeds.
func TestSecondAttemptWithRevision1(t *testing.T) {
	t.Parallel()
	old := Params{Rev: 1, IRD: 2, ORD: 2}
	p := Params{IRD: 4, ORD: 4, PeerToPeer: true, Private: []byte("hi")}
	i, err := NewInitiator(p)
	must(t, err)
	r, err := NewResponder(old)
	must(t, err)
	if _, err := r.Feed(i.AppendRequest(nil)); err != ErrRevision || r.Reply() != nil || !i.RetryRev1() {
		t.Fatalf("first attempt: %v, Reply %x, retry %v", err, r.Reply(), i.RetryRev1())
	}
	p.Rev = 1
	is, rs, ierr, rerr := negotiate(t, p, old)
	if ierr != nil || rerr != nil {
		t.Fatal(ierr, rerr)
	}
	if is.PeerToPeer || is.IRD != 4 || rs.IRD != 2 || string(rs.PeerPrivate) != "hi" {
		t.Errorf("initiator %+v, responder %+v", is, rs)
	}
}
