package rds

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
)

// sendsLocked tells whether a message that says something about memory can be
// queued at once. If not, sendSpecial finds out why.
func (s *nodeSocket) sendsLocked(p *peer, o *Outgoing) bool {
	return p.carries == operators && o.Map == nil && checkSpecial(o) == nil && (!o.HasDest || s.exposed.has(mr.Key(o.Dest.Key())))
}

// sendSpecial is send for messages that say something about memory.
func (s *nodeSocket) sendSpecial(ctx context.Context, o *Outgoing, to netip.AddrPort, block bool) error {
	if err := checkSpecial(o); err != nil {
		return err
	}
	if o.HasDest && !s.exposed.has(mr.Key(o.Dest.Key())) {
		return ErrInvalid
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return err
	}
	if err := s.awaitOperators(ctx, p, block); err != nil {
		return err
	}
	about := wire.Memory{HasDest: o.HasDest, Dest: uint64(o.Dest)}
	if m := o.Map; m != nil {
		c, err := s.getMR(m.Memory, netip.Addr{}, m.Flags)
		if err != nil {
			return err
		}
		about.HasDest, about.Dest = true, uint64(c)
	}
	if err = s.sendAbout(ctx, o, p, to.Port(), about, block); err != nil {
		if o.Map != nil {
			_ = s.freeMR(Cookie(about.Dest), 0) // no peer has heard of the key
		}
		return err
	}
	if o.Map != nil {
		o.Map.Cookie = Cookie(about.Dest)
	}
	return nil
}

func (s *nodeSocket) sendAbout(ctx context.Context, o *Outgoing, p *peer, dport uint16, about wire.Memory, block bool) error {
	h := s.share(p)
	if err := s.charge(ctx, h, dport, size(o), block); err != nil {
		return err
	}
	var m conn.Message
	copied := s.prepare(&m, o, h, dport)
	s.extend(&m, p, newOperation(s, p, o, dport), about)
	return s.submit(ctx, p, &m, o, copied, block)
}

// extend gives a message its operation, if it has one, and what it says about
// memory. A region that it offers is the peer's to use before the message is sent.
func (s *nodeSocket) extend(m *conn.Message, p *peer, op *operation, about wire.Memory) {
	if about.HasDest {
		s.exposed.give(mr.Key(Cookie(about.Dest).Key()), p)
	}
	if op != nil {
		m.Op = &op.core
		if !op.core.Silent {
			about.HasUsed, about.Used = true, uint32(op.used())
		}
	}
	if about != (wire.Memory{}) {
		about.Put(&m.Extensions)
	}
}
