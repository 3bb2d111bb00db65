package bench

import "time"

// latency is ping-pong: one message outstanding, whole round trips.
func (c *cell) latency() (Result, error) {
	p, conns, end, err := c.messenger()
	if err != nil {
		return Result{}, err
	}
	defer end()
	h := newHist()
	n, err := c.pings(p, 0, c.opts.Warmup, func(time.Duration) {})
	if err != nil {
		return Result{}, err
	}
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	record := func(d time.Duration) { h.RecordValue(min(int64(d), maxLatency)) }
	if c.work.Rate > 0 {
		interval := int64(float64(time.Second) / c.work.Rate)
		record = func(d time.Duration) { h.RecordCorrectedValue(min(int64(d), maxLatency), interval) }
	}
	last, err := c.pings(p, n, c.opts.Duration, record)
	if err != nil {
		return Result{}, err
	}
	res, err := c.end(m, last-n, 2*c.work.Size)
	res.hist, res.Latency, res.TCPConns = h, latencyOf(h), conns()
	return res, err
}

// ping makes one round trip with message n.
func ping(p messenger, n uint64) error {
	err := p.send(n, 1)
	if err == nil {
		err = p.flush()
	}
	if err == nil {
		err = p.recv(n)
	}
	return err
}

// pings makes round trips for d, at least one, and returns the number of the next. At an
// offered rate each has its time; one that is late starts at once, and the
// histogram makes up for those that a slow one held up (RecordCorrectedValue).
func (c *cell) pings(p messenger, n uint64, d time.Duration, record func(time.Duration)) (uint64, error) {
	start := time.Now()
	t := start
	var pace time.Duration
	if c.work.Rate > 0 {
		pace = time.Duration(float64(time.Second) / c.work.Rate)
	}
	due := start
	for first := n; n == first || t.Sub(start) < d && !c.interrupted(); {
		if pace > 0 {
			due = due.Add(pace)
			if wait := time.Until(due); wait > 0 {
				c.sleep(wait)
			}
			t = time.Now()
		}
		if err := ping(p, n); err != nil {
			return n, err
		}
		n++
		now := time.Now()
		record(now.Sub(t))
		t = now
	}
	return n, nil
}
