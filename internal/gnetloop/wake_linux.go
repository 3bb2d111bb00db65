package gnetloop

// Wake has the handler's Wake called on the connection's event loop, soon, and
// Flush after it. Any goroutine may ask; several calls before the event loop
// comes to it make one. A connection that is not open yet is woken when it is,
// one that has ended never. A handler may ask for the next one within Wake: the
// event loop looks at its sockets in between.
func (c *Conn) Wake() {
	if c.woken.Swap(true) || !c.acquire() {
		return
	}
	defer c.put()
	// Either the bell is there, or OnOpen, which hangs it up, sees woken.
	if b := c.bell.Load(); b != nil {
		b.ring(c)
	}
}

// wake calls the handler on the event loop, unless that was done since it was
// asked for or the connection has ended.
func (c *Conn) wake() {
	if !c.woken.Swap(false) || c.life.Load()&ending != 0 {
		return
	}
	err := c.h.Wake()
	c.h.Flush()
	if err != nil {
		c.refuse(err)
		c.mu.Lock()
		loop := c.loop
		c.mu.Unlock()
		loop.closeNow() // because nothing may be fed any more
	}
}
