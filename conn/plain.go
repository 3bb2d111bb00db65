package conn

// Plain says that path i's new link carries neither operations nor extensions
// about memory: the messages waiting with any end with OtherError. The peer may
// be a Linux kernel now, which a stray RDMA_DEST harms. It comes before the
// first Fill for the link.
func (c *Conn) Plain(i int) {
	if !c.extended && len(c.ops) == 0 {
		return
	}
	p := &c.paths[i]
	c.unshelve(p, func(e *entry) bool { return e.flags&(entryExtended|entryOp) != 0 })
	c.settle(p, p.q.first, p.q.tail, func(e *entry) (Status, bool) {
		return OtherError, e.flags&(entryExtended|entryOp) != 0
	})
}
