package bench

import "time"

// burstBytes is what a sender sends between two looks at the clock.
const burstBytes = 64 << 10

// oneWay sends as fast as the transport takes it and is done when the receiver
// has confirmed the count.
func (c *cell) oneWay() (Result, error) {
	b, end, err := c.messenger()
	if err != nil {
		return Result{}, err
	}
	defer end()
	sent, first, err := c.bursts(b, 0, c.opts.Warmup)
	if err != nil {
		return Result{}, err
	}
	m := c.beginAt(first)
	all, last, err := c.bursts(b, sent, c.opts.Duration)
	if err != nil {
		return Result{}, err
	}
	elapsed := time.Since(m.start)
	res := m.result(elapsed, c.cpu()-m.cpu, last, all-sent, c.work.Size)
	res.TCPConns = c.conns()
	return res, nil
}

// bursts sends for d, at least once, waits for the confirmation and returns the number of the
// next message and the server's state.
func (c *cell) bursts(b messenger, n uint64, d time.Duration) (uint64, snapshot, error) {
	per := max(1, burstBytes/max(c.work.Size, 1))
	per = min((per+c.work.Batch-1)/c.work.Batch*c.work.Batch, 4096)
	for start, first := time.Now(), n; n == first || time.Since(start) < d && !c.interrupted(); {
		if err := b.send(n, per); err != nil {
			return n, snapshot{}, err
		}
		n += uint64(per)
	}
	if err := b.flush(); err != nil {
		return n, snapshot{}, err
	}
	q := request{Op: opConfirm, Count: n}
	if c.transport != TCP && c.work.Op == OpWrite { // the server's program does not hear of Writes
		q = request{Op: opSnap}
	}
	snap, err := c.ask(q)
	return n, snap, err
}
