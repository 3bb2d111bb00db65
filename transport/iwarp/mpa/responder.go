package mpa

// Responder is the side that receives the Request. Once Feed has returned it,
// the upper layer decides by Accept or Reject. Reply returns what is to be sent
// then, or before the connection is closed after an error. The responder sends
// no FPDU before it has received one; its parser is to be ready before the
// Reply leaves.
type Responder struct {
	p       Params // the listener's parameters, with defaults filled in
	in      inbox
	request *Request // the peer's Request; not nil while the upper layer decides
	reply   []byte
	failure error // error that Feed returns from now on
}

// Request is what an initiator asks for.
type Request struct {
	Rev      uint8
	CRC      bool
	Markers  bool   // the peer wants markers in what it receives
	Enhanced bool   // Peer is set
	Peer     Prefix // the peer's IRD and ORD, as they came
	Private  []byte // the upper layer's part
	Sealed   bool   // the Request had a seal, which is in order; the Reply will have one
}

// NewResponder returns a Responder for a new connection of a listener with
// these parameters, or the error of p.Validate. What is refused before the
// upper layer is asked follows from Rev, MaxPrivate and NoMarkers.
func NewResponder(p Params) (*Responder, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Responder{p: p.filled()}, nil
}

// Feed takes octets that the peer has sent, and returns the Request when it is
// whole. An initiator that sends more than that before the Reply has left fails
// with ErrPipelined. After an error the connection is to be closed, as soon as
// Reply, if there is one, has been sent.
func (r *Responder) Feed(b []byte) (*Request, error) {
	switch {
	case r.failure != nil:
		return nil, r.failure
	case r.request != nil && len(b) == 0:
		return r.request, nil
	case r.request != nil:
		return nil, r.fail(ErrPipelined)
	}
	f, n, whole, err := r.in.take(b, false, r.p.MaxPrivate)
	switch {
	case err != nil:
		return nil, r.fail(err)
	case len(r.in.buf) >= FrameLen && f.Rev > r.p.Rev:
		return nil, r.fail(ErrRevision)
	case !whole:
		return nil, nil
	case n < len(b):
		return nil, r.fail(ErrPipelined)
	}
	q := &Request{Rev: f.Rev, CRC: f.CRC, Markers: f.Markers, Sealed: r.in.sealed}
	q.Enhanced, q.Peer, q.Private, err = f.split()
	if err == nil && q.Markers && r.p.NoMarkers {
		err = ErrMarkers
	}
	if err != nil {
		r.refuse(&r.p, q, nil)
		return nil, r.fail(err)
	}
	r.request = q
	return q, nil
}

// Reply returns the Reply, nil as long as there is none.
func (r *Responder) Reply() []byte { return r.reply }

// Reject refuses the Request for the upper layer, with its reason. It fails with
// ErrPrivate if that is too long for a Reply, and nothing has happened then.
func (r *Responder) Reject(private []byte) error {
	if r.request == nil {
		return ErrTurn
	}
	p := r.p
	p.Private, p.Seal = private, r.in.sealed
	if err := p.checkPrivate(min(MaxReplyPrivate, p.MaxPrivate), r.request.Enhanced); err != nil {
		return err
	}
	r.refuse(&p, r.request, private)
	r.fail(ErrTurn)
	return nil
}

// Accept accepts the Request on these terms, as a rule the listener's with
// Private set for this connection. It fails with ErrDepth if the initiator
// wants more RDMA Reads than p.MaxIRD, and with ErrMarkers if it wants markers
// and p.NoMarkers is set; Reply is then a rejecting one. With any other error,
// that of p.Validate or ErrPrivate, nothing has happened.
func (r *Responder) Accept(p Params) (*Settled, error) {
	q := r.request
	if q == nil {
		return nil, ErrTurn
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p.Seal = r.in.sealed
	if err := p.checkPrivate(MaxReplyPrivate, q.Enhanced); err != nil {
		return nil, err
	}
	p = p.filled()
	s := &Settled{
		Rev: q.Rev, CRC: q.CRC || p.CRC, SendMarkers: q.Markers, ReceiveMarkers: p.Markers,
		IRD: p.IRD, ORD: p.ORD,
		Enhanced: q.Enhanced, Peer: q.Peer, PeerPrivate: q.Private, Sealed: q.Sealed,
	}
	var own Prefix
	if q.Enhanced {
		own = settle(s, &p)
	}
	var err error
	switch {
	case q.Markers && p.NoMarkers:
		err = ErrMarkers
	case s.IRD > p.MaxIRD:
		err = ErrDepth
	}
	if err != nil {
		r.refuse(&p, q, nil)
		return nil, r.fail(err)
	}
	f := Frame{Reply: true, Markers: p.Markers, CRC: s.CRC, Enhanced: q.Enhanced, Rev: q.Rev, Private: p.Private}
	r.send(&f, &own)
	r.fail(ErrTurn)
	return s, nil
}

// settle applies the rules for an enhanced Request (RFC 6581 sections 9.1, 9.2)
// and returns the prefix of the Reply. s.IRD can come out above p.MaxIRD.
func settle(s *Settled, p *Params) Prefix {
	if s.Peer.PeerToPeer {
		s.PeerToPeer = true
		s.RTR = offer(s.Peer.RTR, p)
		if s.RTR&RTRRead != 0 {
			s.IRD = max(s.IRD, 1)
		}
	}
	own := Prefix{PeerToPeer: s.PeerToPeer, RTR: s.RTR}
	// What the initiator does not negotiate stays as it is here.
	own.IRD, own.ORD = NotNegotiated, NotNegotiated
	if s.Peer.ORD != NotNegotiated {
		s.IRD = max(s.IRD, int(s.Peer.ORD))
		own.IRD = uint16(s.IRD)
	}
	if s.Peer.IRD != NotNegotiated {
		s.ORD = min(s.ORD, int(s.Peer.IRD))
		own.ORD = uint16(s.ORD)
	}
	return own
}

// offer returns the kinds of RTR to put into a Reply: those in common, and
// without any, all that this side takes, so that the initiator sees why it has
// to give up. The set is never empty; an empty Write asks for nothing.
func offer(asked RTR, p *Params) RTR {
	takes := p.RTR
	if p.MaxIRD == 0 {
		takes &^= RTRRead
	}
	if takes == 0 {
		takes = RTRWrite
	}
	if common := takes & asked; common != 0 {
		return common
	}
	return takes
}

// refuse makes a rejecting Reply. In an enhanced one the numbers are this
// side's limits, for an initiator that wants to try again.
func (r *Responder) refuse(p *Params, q *Request, private []byte) {
	f := Frame{Reply: true, Reject: true, Enhanced: q.Enhanced, Rev: q.Rev, Private: private}
	r.send(&f, &Prefix{IRD: uint16(p.MaxIRD), ORD: uint16(p.ORD)})
}

// send makes the Reply, in which an enhanced Request always finds a prefix.
func (r *Responder) send(f *Frame, own *Prefix) {
	if f.Enhanced {
		f.Private = append(own.AppendTo(nil), f.Private...)
	}
	if r.reply = f.AppendTo(nil); r.in.sealed {
		r.reply = seal(r.reply)
	}
}

// fail ends the machine.
func (r *Responder) fail(err error) error {
	r.request, r.failure = nil, err
	return err
}
