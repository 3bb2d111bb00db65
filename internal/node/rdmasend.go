package node

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
)

// sendsLocked tells whether a message that says something about memory can be
// queued at once. If not, sendSpecial finds out why.
func (s *Socket) sendsLocked(p *Peer, o *datagram.Outgoing) bool {
	return p.Carries == Operators && o.Map == nil && socket.CheckSpecial(o) == nil && (!o.HasDest || s.Exposed.has(mr.Key(o.Dest.Key())))
}

// sendSpecial is send for messages that say something about memory.
func (s *Socket) sendSpecial(ctx context.Context, o *datagram.Outgoing, to netip.AddrPort, block bool) error {
	if err := socket.CheckSpecial(o); err != nil {
		return err
	}
	if o.HasDest && !s.Exposed.has(mr.Key(o.Dest.Key())) {
		return datagram.ErrInvalid
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return err
	}
	if err := s.AwaitOperators(ctx, p, block); err != nil {
		return err
	}
	about := wire.Memory{HasDest: o.HasDest, Dest: uint64(o.Dest)}
	if m := o.Map; m != nil {
		c, err := s.GetMR(m.Memory, netip.Addr{}, m.Flags)
		if err != nil {
			return err
		}
		about.HasDest, about.Dest = true, uint64(c)
	}
	if err = s.sendAbout(ctx, o, p, to.Port(), about, block); err != nil {
		if o.Map != nil {
			_ = s.FreeMR(datagram.Cookie(about.Dest), 0) // no peer has heard of the key
		}
		return err
	}
	if o.Map != nil {
		o.Map.Cookie = datagram.Cookie(about.Dest)
	}
	return nil
}

func (s *Socket) sendAbout(ctx context.Context, o *datagram.Outgoing, p *Peer, dport uint16, about wire.Memory, block bool) error {
	h := s.Share(p)
	if err := s.charge(ctx, h, dport, socket.Size(o), block); err != nil {
		return err
	}
	var m conn.Message
	copied := s.prepare(&m, o, h, dport)
	s.Extend(&m, p, newOperation(s, p, o, dport), about)
	return s.submit(ctx, p, &m, o, copied, block)
}

// Extend gives a message its operation, if it has one, and what it says about
// memory. A region that it offers is the peer's to use before the message is sent.
func (s *Socket) Extend(m *conn.Message, p *Peer, op *Operation, about wire.Memory) {
	if about.HasDest {
		s.Exposed.give(mr.Key(datagram.Cookie(about.Dest).Key()), p)
	}
	if op != nil {
		m.Op = &op.Core
		if !op.Core.Silent {
			about.HasUsed, about.Used = true, uint32(op.used())
		}
	}
	if about != (wire.Memory{}) {
		about.Put(&m.Extensions)
	}
}
