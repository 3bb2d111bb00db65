package mpa

// Initiator is the side that sends the Request, as a rule the one that made the
// TCP connection. It sends nothing more until Feed has returned Settled.
type Initiator struct {
	p       Params // parameters, with defaults filled in
	in      inbox
	retry   bool
	failure error // error that Feed returns from now on
}

// NewInitiator returns an Initiator, or the error of p.Validate.
func NewInitiator(p Params) (*Initiator, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	i := &Initiator{p: p.filled()}
	i.retry = i.enhanced()
	return i, nil
}

func (i *Initiator) enhanced() bool { return i.p.Rev >= 2 }

// AppendRequest appends the Request.
func (i *Initiator) AppendRequest(dst []byte) []byte {
	f := Frame{Markers: i.p.Markers, CRC: i.p.CRC, Enhanced: i.enhanced(), Rev: i.p.Rev, Private: i.p.Private}
	if i.enhanced() {
		prefix := Prefix{IRD: uint16(i.p.IRD), ORD: uint16(i.p.ORD), PeerToPeer: i.p.PeerToPeer}
		if prefix.PeerToPeer {
			prefix.RTR = i.p.RTR
		}
		f.Private = append(prefix.AppendTo(nil), i.p.Private...)
	}
	if i.p.Seal {
		return append(dst, seal(f.AppendTo(nil))...)
	}
	return f.AppendTo(dst)
}

// Feed takes octets that the peer has sent, n of them; the rest belongs to the
// stream of FPDUs, which a responder like siw may begin at once. Until the
// Reply is whole, s and err are nil. After an error nothing more is expected
// and the connection is to be closed. With an *Error that has a Code, s is set
// as well and says how the Terminate message is framed; it means nothing else.
func (i *Initiator) Feed(b []byte) (n int, s *Settled, err error) {
	if i.failure != nil {
		return 0, nil, i.failure
	}
	f, n, whole, err := i.in.take(b, true, i.p.MaxPrivate)
	if len(i.in.buf) > 0 {
		i.retry = false
	}
	if err == nil && !whole {
		return n, nil, nil
	}
	if err == nil {
		s, err = i.judge(&f)
	}
	if i.failure = err; err == nil {
		i.failure = ErrTurn
	}
	return n, s, err
}

// RetryRev1 reports whether a new connection with Params.Rev 1 may do better,
// after the peer has closed this one or Feed has failed: a responder older than
// RFC 6581 takes an enhanced Request for a malformed one and closes without a
// word, or answers in its own revision (RFC 6581 section 10).
func (i *Initiator) RetryRev1() bool { return i.retry }

// judge decides on a whole Reply of revision 1 or 2.
func (i *Initiator) judge(f *Frame) (*Settled, error) {
	enhanced, peer, private, err := f.split()
	switch {
	case f.Reject:
		// Whatever it says besides.
		return nil, &RejectedError{Rev: f.Rev, Enhanced: enhanced && err == nil, Peer: peer, Private: private}
	case f.Markers && i.p.NoMarkers:
		return nil, ErrMarkers
	case enhanced != i.enhanced():
		i.retry = f.Rev < i.p.Rev
		return nil, ErrEnhanced
	case err != nil:
		return nil, err
	}
	s := &Settled{
		Rev: f.Rev, CRC: f.CRC || i.p.CRC, SendMarkers: f.Markers, ReceiveMarkers: i.p.Markers,
		IRD: i.p.IRD, ORD: i.p.ORD,
		Enhanced: enhanced, Peer: peer, PeerPrivate: private, Sealed: i.in.sealed,
	}
	if !enhanced {
		return s, nil
	}
	return s, i.settle(s)
}

// settle applies the rules for an enhanced Reply (RFC 6581 sections 9.1, 9.2).
func (i *Initiator) settle(s *Settled) error {
	s.ORD = min(s.ORD, int(s.Peer.IRD)) // NotNegotiated is above all
	if s.Peer.ORD != NotNegotiated {
		s.IRD = max(s.IRD, int(s.Peer.ORD))
	}
	if s.IRD > i.p.MaxIRD {
		return ErrIRD
	}
	if !i.p.PeerToPeer {
		return nil
	}
	common := i.p.RTR & s.Peer.RTR
	if s.Peer.IRD == 0 {
		common &^= RTRRead
	}
	if !s.Peer.PeerToPeer || common == 0 {
		return ErrRTR
	}
	s.PeerToPeer, s.RTR = true, common.choose(i.p.Prefer)
	if s.RTR == RTRRead {
		s.ORD = max(s.ORD, 1)
	}
	return nil
}
