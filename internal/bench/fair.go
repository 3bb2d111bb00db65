package bench

import "time"

// floodSize is a flood's message size.
const floodSize = 64 << 10

// fair is latency at an offered rate, beside an application on the same daemon
// that sends to another on the server's daemon as fast as it can.
func (c *cell) fair() (Result, error) {
	if c.transport == Alone {
		return c.latency()
	}
	flood := &Work{Kind: OneWay, Size: floodSize, Batch: 1, ZeroCopy: true}
	sinks, end, err := c.applications(serverSide, 1)
	if err != nil {
		return Result{}, err
	}
	defer end()
	floods, end, err := c.applications(clientSide, 1)
	if err != nil {
		return Result{}, err
	}
	defer end()
	opened, err := sinks.call(func(int) request { return request{Op: opOpen, Work: flood, Transport: RDS} })
	if err != nil {
		return Result{}, err
	}
	if _, err := floods.call(func(int) request { return request{Op: opSend, Work: flood, Addrs: opened[0].Addrs} }); err != nil {
		return Result{}, err
	}
	arrived := func() (time.Time, uint64, error) {
		r, err := sinks[0].call(request{Op: opSnap})
		return time.Now(), r.Snap.Count, err
	}
	start, before, err := arrived()
	if err != nil {
		return Result{}, err
	}
	res, err := c.latency()
	if err != nil {
		return Result{}, err
	}
	stop, after, err := arrived()
	if err != nil {
		return Result{}, err
	}
	res.Flood = float64(after-before) * floodSize / 1e6 / stop.Sub(start).Seconds()
	_, err = floods.call(func(int) request { return request{Op: opStop} })
	return res, err
}
