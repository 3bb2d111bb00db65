package daemon

import (
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
)

// forget removes the slots that the session still knows from ended, a set of slots whose
// peers have ended and which no message in a queue names. The session forgets the rest of
// ended. Slots that the application has looked up are not in ended, because the session
// holds their peers. Other slots the application knows from messages only, and reads their
// addresses before it takes the messages off the ring.
func (x *session) forget(ended *node.SlotSet) {
	c := &x.out
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.slots || c.closed {
		ended.Remove(&x.heard)
		return
	}
	named := new(node.SlotSet)
	name := func(e *ipc.Entry) {
		if e.Op() == ipc.OpMessage && x.heard.Has(e.Peer()) { // The application can write here, but must not keep slots that it was not told of.
			named.Add(e.Peer())
		}
	}
	c.spill.Each(name)
	for _, e := range c.ring.Left(0) {
		name(&e)
	}
	ended.Remove(named)
	x.heard.Remove(ended)
}
