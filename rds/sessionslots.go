package rds

import "github.com/rds-go/rds/internal/ipc"

// forget removes the slots that the session still knows from ended, a set of slots whose
// peers have ended and which no message in a queue names. The session forgets the rest of
// ended. Slots that the application has looked up are not in ended, because the session
// holds their peers. Other slots the application knows from messages only, and reads their
// addresses before it takes the messages off the ring.
func (x *session) forget(ended *slotSet) {
	c := &x.out
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.slots || c.closed {
		ended.remove(&x.heard)
		return
	}
	named := new(slotSet)
	name := func(e *ipc.Entry) {
		if e.Op() == ipc.OpMessage && x.heard.has(e.Peer()) { // The application can write here, but must not keep slots that it was not told of.
			named.add(e.Peer())
		}
	}
	c.spill.Each(name)
	for _, e := range c.ring.Left(0) {
		name(&e)
	}
	ended.remove(named)
	x.heard.remove(ended)
}
