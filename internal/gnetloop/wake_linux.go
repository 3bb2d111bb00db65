package gnetloop

import "context"

// Wake has the handler's Wake called on the connection's event loop, soon, and
// Flush after it. Any goroutine may ask; several calls before the event loop
// comes to it make one. A connection that is not open yet is woken when it is,
// one that has ended never.
//
// It costs two small allocations, in gnet's queue, unless one is due already:
// it is for what is rare, not for every message. A handler must not ask for the
// next Wake within Wake: an event loop works off what it is asked for before it
// looks at its sockets again.
func (c *Conn) Wake() {
	if c.woken.Swap(true) || !c.acquire() {
		return
	}
	defer c.put()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == open {
		c.ringLocked()
	}
}

// ringLocked queues the waking of an open connection. It does not wait. The
// caller has acquired c or is on the event loop, which keeps the loop alive.
func (c *Conn) ringLocked() {
	_ = c.loop.EventLoop().Execute(context.Background(), (*waking)(c))
}

// waking is a Conn as a task of its event loop.
type waking Conn

// Run calls the handler on the event loop, unless the connection has ended.
func (w *waking) Run(context.Context) error {
	c := (*Conn)(w)
	if !c.woken.Swap(false) || c.life.Load()&ending != 0 {
		return nil
	}
	err := c.h.Wake()
	c.h.Flush()
	if err != nil {
		c.refuse(err)
		c.mu.Lock()
		loop := c.loop
		c.mu.Unlock()
		return loop.EventLoop().Close(loop) // at once: nothing may be fed any more
	}
	return nil
}
