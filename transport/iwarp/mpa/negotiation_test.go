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
