package mpa

import (
	"errors"
	"fmt"
)

// Params are one side's wishes and limits. The zero value is revision 2 in the
// client-server model without RDMA Reads, CRC and markers.
type Params struct {
	// Rev is the revision that an initiator speaks and the highest that a
	// responder does: 2, the default, or 1. A Request of revision 2 is
	// enhanced. What revision 1 cannot say, IRD, ORD and PeerToPeer, is then
	// left to the upper layer.
	Rev uint8

	// IRD is how many RDMA Reads of the peer are held, MaxIRD how many can be
	// if the peer asks for more; zero is IRD. ORD is how many are wanted under
	// way to the peer. All are at most MaxReads. siw rounds what it is told up
	// to a power of two, see Settled.ReadSlots.
	IRD, MaxIRD, ORD int

	// CRC asks for CRCs, which are then in both directions. The RFC wants it
	// set unless an administrator decides otherwise; it is also the only way to
	// get CRCs from siw, which never asks.
	CRC bool
	// Markers asks the peer to send markers. siw refuses.
	Markers bool
	// NoMarkers refuses a peer that asks for markers.
	NoMarkers bool

	// PeerToPeer lets an initiator ask for the peer-to-peer model, in which
	// the responder may send once an RTR has come. A responder agrees to
	// either model. It is not meant for siw, which a reset before the RTR
	// brings down.
	PeerToPeer bool
	// RTR is the set of kinds that an initiator can send, or a responder
	// takes; zero is all. With RTRRead a responder raises its
	// IRD to 1 if it may, and the initiator that sends it its ORD.
	RTR RTR
	// Prefer is the kind that an initiator sends if the responder takes it;
	// else it is Read, Write or Send, in this order.
	Prefer RTR

	// Seal has an initiator protect its Request by a seal: a checksum at the end of the
	// private data, which a peer without seals takes for a part of that. A responder
	// seals the Reply to a sealed Request, whatever Seal is.
	Seal bool
	// Private is the upper layer's private data.
	Private []byte
	// MaxPrivate is the most private data of a frame, sent or received, with
	// the prefix; zero is MaxPrivate. siw takes 256. A Reply is bound by
	// MaxReplyPrivate in addition.
	MaxPrivate int
}

// Validate returns an error that names each field out of its range, nil if
// there is none. errors.Is finds ErrRange in it, or ErrPrivate.
func (p *Params) Validate() error {
	q := p.filled()
	errs := []error{q.checkPrivate(q.MaxPrivate, q.Rev >= 2)}
	inRange := func(name string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%w: %s is %d, not %d to %d", ErrRange, name, v, low, high))
		}
	}
	inRange("Rev", int(q.Rev), 1, 2)
	inRange("IRD", q.IRD, 0, MaxReads)
	inRange("MaxIRD", q.MaxIRD, q.IRD, MaxReads)
	inRange("ORD", q.ORD, 0, MaxReads)
	inRange("RTR", int(q.RTR), 1, int(RTRSend|RTRWrite|RTRRead))
	inRange("MaxPrivate", q.MaxPrivate, PrefixLen, MaxPrivate)
	return errors.Join(errs...)
}

// filled returns a copy with the defaults in place.
func (p *Params) filled() Params {
	q := *p
	if q.Rev == 0 {
		q.Rev = 2
	}
	if q.MaxIRD == 0 {
		q.MaxIRD = q.IRD
	}
	if q.RTR == 0 {
		q.RTR = RTRRead | RTRWrite | RTRSend
	}
	if q.MaxPrivate == 0 {
		q.MaxPrivate = MaxPrivate
	}
	return q
}

// checkPrivate fails if Private is too long for a frame.
func (p *Params) checkPrivate(limit int, enhanced bool) error {
	if enhanced {
		limit -= PrefixLen
	}
	if p.Seal {
		limit -= SealLen
	}
	if n := len(p.Private); n > limit {
		return fmt.Errorf("%w: Private is %d octets, not 0 to %d", ErrPrivate, n, limit)
	}
	return nil
}
