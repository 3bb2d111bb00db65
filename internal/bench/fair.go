package bench

import "time"

// floodSize is a flood's message size.
const floodSize = 64 << 10

var floodWork = &Work{Kind: OneWay, Size: floodSize, Batch: 1, ZeroCopy: true}

// fair is latency at an offered rate, beside an application on the same daemon
// that sends to another on the server's daemon as fast as it can.
func (c *cell) fair() (Result, error) {
	if c.transport == Alone {
		return c.crowd()
	}
	floods, sinks, end, err := c.pairs(1, floodWork)
	defer end()
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	before, err := sinks[0].call(request{Op: opSnap})
	if err != nil {
		return Result{}, err
	}
	res, err := c.crowd()
	if err != nil {
		return Result{}, err
	}
	after, err := sinks[0].call(request{Op: opSnap})
	if err != nil {
		return Result{}, err
	}
	res.Flood = float64(after.Snap.Count-before.Snap.Count) * floodSize / 1e6 / time.Since(start).Seconds()
	_, err = floods[0].call(request{Op: opStop})
	return res, err
}
