package simnet

import (
	"encoding/binary"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// operation is what a message does with the peer's memory first, and what has
// become of that.
type operation struct {
	conn.Operation
	m        *message
	p        *peer // peer that the operation was meant for
	begun    bool
	executed int  // times that the peer has executed the operation
	refused  bool // the peer has refused the operation: its message is not delivered
	unable   bool // the link cannot carry it
	answered bool // the end of the operation is on its way to the sender
	done     bool // the sender has heard
	status   conn.Status
}

// operate draws the operation of a message, or none.
func (s *Sim) operate(m *message) {
	if !s.cfg.Scenario.Operations || s.chance(0.6) {
		return
	}
	o := &operation{m: m}
	o.Work, o.Fence, o.Silent = o, s.chance(0.3), s.chance(0.2)
	o.List = []*transport.Operation{{Owner: o}}
	if o.Silent {
		m.size = 0
	}
	m.op = o
}

// stale tells whether the peer has restarted since the operation was asked for.
func (o *operation) stale() bool { return o.Epoch != o.p.Core.Epoch() }

// execute is the operation's arrival at the other side.
func (e *end) execute(o *operation) {
	s, other := e.t.s, e.other
	switch {
	case e.t.broken:
		return
	case other.gone:
		s.after(e.latency, e.reset)
		return
	}
	status := conn.Success
	if s.chance(0.1) {
		status, o.refused = conn.RemoteError, true
	} else {
		o.executed++
	}
	if o.executed > 1 {
		s.check.failf("%v: its operation was executed %d times", o.m, o.executed)
	}
	s.after(other.latency, func() {
		if !e.t.broken || s.chance(0.5) {
			e.answer(o, status)
		}
	})
}

// answer tells the sender how an operation has ended, once.
func (e *end) answer(o *operation, status conn.Status) {
	if o.answered {
		return
	}
	o.answered = true
	e.host.awake(func() {
		if e.p.dead {
			return
		}
		e.t.s.check.answered(o, status)
		e.p.OpDone(e.path, &o.Operation, status)
	})
}

// lost answers the operations that a link took with it, now or later.
func (e *end) lost() {
	for _, o := range e.ops {
		switch {
		case o.answered:
		case e.t.s.chance(0.5):
			e.answer(o, conn.Dropped)
		default:
			e.t.s.after(e.t.s.upTo(time.Second), func() { e.answer(o, conn.Dropped) })
		}
	}
	e.ops = nil
}

// answered notes what the sender is about to hear.
func (c *checker) answered(o *operation, status conn.Status) {
	if o.m.fated && o.m.fate == conn.Success {
		c.failf("%v: told success before its operation had ended with %d", o.m, status)
	}
	o.done, o.status = true, status
}

// operated judges the fate of a message with an operation.
func (c *checker) operated(o *operation, status conn.Status) {
	switch status {
	case conn.Success:
		if !o.done || o.status != conn.Success || o.executed != 1 {
			c.failf("%v: told success, its operation: done %v with %d, executed %d times", o.m, o.done, o.status, o.executed)
		}
	case conn.RemoteError:
		if !o.refused && (o.begun || !o.stale()) {
			c.failf("%v: told that it was refused, and it was not", o.m)
		}
	case conn.Dropped:
		if !o.begun && o.m.route.to.incarnation == 1 {
			c.failf("%v: dropped, and its operation was never begun", o.m)
		}
	case conn.OtherError:
		if !o.unable && o.status != conn.OtherError {
			c.failf("%v: failed for no reason", o.m)
		}
	}
}

// behind judges that the first byte of a message with an operation is written.
func (c *checker) behind(o *operation, again bool) {
	switch {
	case o.Silent:
		c.failf("%v: written, and it is silent", o.m)
	case !o.begun:
		c.failf("%v: written before its operation was begun", o.m)
	case o.Fence && !o.done:
		c.failf("%v: written before the operation it waits for was done", o.m)
	case again:
		c.failf("%v: repeated, and it has an operation", o.m)
	}
}

// undelivered tells whether a message that arrives is dropped by the link,
// for its operation was refused; one whose operation has not been executed may
// not arrive.
func (c *checker) undelivered(payload []byte) bool {
	if len(payload) < 8 {
		return false
	}
	id := binary.BigEndian.Uint64(payload)
	if id == 0 || id > uint64(len(c.messages)) {
		return false
	}
	m := c.messages[id-1]
	if m.op == nil {
		return false
	}
	if !m.op.refused && m.op.executed == 0 {
		c.failf("%v arrived before its operation", m)
	}
	return m.op.refused
}
