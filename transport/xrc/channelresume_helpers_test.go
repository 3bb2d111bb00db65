package xrc

import (
	"encoding/binary"
	"errors"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

var errCut = errors.New("cut by the test")

// cut loses all connections of a host.
func (h *host) cut() {
	for _, p := range h.allPeers() {
		p.mu.Lock()
		m := p.mux
		p.mu.Unlock()
		if m != nil {
			m.end(errCut)
		}
	}
}

// drain takes n messages of a queue, each of which must be the next number of its
// sender, and posts their memory again. It reports the first that is not.
func (a *app) drain(srq *objects.SRQ, m *iwarp.MR, size, n int) error {
	next := map[uint32]uint32{}
	var list [16]iwarp.Completion
	for got := 0; got < n; {
		k := a.cq.Poll(list[:])
		if k == 0 {
			if err := a.cq.Wait(within(a.h.n)); err != nil {
				return err
			}
		}
		for _, c := range list[:k] {
			b := m.Bytes()[int(c.ID)*size:]
			from, i := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
			if c.Status != iwarp.Success || i != next[from] {
				return errors.New("message lost, doubled or out of order")
			}
			next[from]++
			if _, err := srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{m.SGE(int(c.ID)*size, size)}}); err != nil {
				return err
			}
			got++
		}
	}
	return nil
}

// stream sends numbered messages and keeps as many under way as the channel takes.
func (a *app) stream(ch *Channel, from uint32, n int, each func(i int)) {
	t := a.h.n
	t.Helper()
	open := 0
	finish := func() {
		if c := a.next(); c.Status != iwarp.Success {
			t.Fatalf("%+v", c)
		}
		open--
	}
	for i := range n {
		var b [100]byte
		binary.BigEndian.PutUint32(b[:], from)
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		for open == 200 {
			finish()
		}
		a.send(ch, iwarp.WorkRequest{ID: uint64(i), Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, Inline: b[:]})
		open++
		each(i)
	}
	for open > 0 {
		finish()
	}
}
