package xrc

import (
	"encoding/binary"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// expect takes each messages from each of the senders.
func (a *app) expect(srq *objects.SRQ, m *iwarp.MR, senders, each int) {
	next := make([]uint32, senders)
	for range senders * each {
		c := a.next()
		b := m.Bytes()[c.ID*8:]
		from, i := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if c.Status != iwarp.Success || i != next[from] {
			a.h.n.Errorf("%+v: message %d of %d, want %d", c, i, from, next[from])
			return
		}
		next[from]++
		if _, err := srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{m.SGE(int(c.ID)*8, 8)}}); err != nil {
			a.h.n.Error(err)
			return
		}
	}
}

// scatter sends each messages to each queue.
func (a *app) scatter(ch *Channel, from uint32, srqns []uint32, each int) {
	open := 0
	for i := range each {
		var b [8]byte
		binary.BigEndian.PutUint32(b[:], from)
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		for _, q := range srqns {
			for ; open == 100; open-- {
				a.want(1, iwarp.Success, iwarp.OpSend)
			}
			a.send(ch, iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: q, Inline: b[:]})
			open++
		}
	}
	for ; open > 0; open-- {
		a.want(1, iwarp.Success, iwarp.OpSend)
	}
}
