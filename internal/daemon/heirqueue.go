package daemon

import (
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// requeue queues what the predecessor had queued for a peer.
func (s *Service) requeue(p *node.Peer, list []legacyQueued, lingering map[socketName]*appSocket) error {
	for i := range list {
		q := &list[i]
		x, a := s.sessions[q.Session], lingering[socketName{q.Session, q.Socket}]
		switch {
		case a != nil:
			x = a.sess
		case x != nil:
			a, _ = x.socket(q.Socket)
		}
		if a == nil || a.s.At != p.Local || len(q.Data) > config.MaxMessage {
			return datagram.ErrInvalid
		}
		m := conn.QueuedMessage{Path: q.Path, Sequence: q.Sequence, Written: q.Written, Message: conn.Message{
			Sport: q.Sport, Dport: q.Dport, Account: &a.s.Share(p).Account, Token: q.Token, Notify: q.Notify, Failure: q.Failure,
			Admitted: true, Deadline: q.Deadline,
		}}
		copy(m.Extensions[:], q.Extensions)
		if n := len(q.Data); n <= conn.InlineMax {
			m.Payload = q.Data
		} else {
			m.Body = s.node.Pool.Get(n)
			copy(m.Body.B, q.Data)
		}
		if q.Lent && x.seg != nil { // the message has a copy now
			x.out.frees = append(x.out.frees, q.Offset)
		}
		if q.Op != nil {
			op, err := x.resumeOperation(a, p, q)
			if err != nil {
				return err
			}
			m.Op = &op.Core
		}
		m.Account.Admit(len(q.Data))
		x.queued.Add(int64(len(q.Data) + socket.ItemCost))
		p.Lock()
		err := p.Core.Requeue(time.Now(), &m)
		if err == conn.ErrBudget {
			p.AcceptLocked(&x.flows, a.s, &m.Message)
			err = nil
		}
		p.Arm()
		p.Commit()
		if err != nil {
			return err
		}
		a.showHeld()
	}
	return nil
}
