package bench

import (
	"context"
	"time"

	"github.com/rds-go/rds/rds"
)

// pinger makes one round trip with message n.
type pinger interface{ ping(n uint64) error }

type rdsPinger struct {
	s   *rds.Socket
	w   *Work
	buf []byte
	out rds.Outgoing
	m   rds.Message // the message that out.Buffer points to
}

func (p *rdsPinger) ping(n uint64) error {
	var err error
	if p.w.ZeroCopy {
		p.m = p.s.AllocMessage(p.w.Size)
		putNumber(p.m.Data, n)
		if err = p.s.SendMessage(context.Background(), &p.out); err != nil {
			p.m.Release()
		}
	} else {
		putNumber(p.buf, n)
		_, err = p.s.WriteToAddrPort(p.buf, p.out.To)
	}
	if err != nil {
		return err
	}
	m, err := p.s.Recv(context.Background())
	if err != nil {
		return err
	}
	err = checkMessage(m.Data, p.w.Size, n)
	m.Release()
	return err
}

type tcpPinger struct {
	s   *stream
	buf []byte
}

func (p *tcpPinger) ping(n uint64) error {
	putNumber(p.buf, n)
	if err := p.s.send(p.buf); err != nil {
		return err
	}
	if err := p.s.flush(); err != nil {
		return err
	}
	m, err := p.s.recv()
	if err != nil {
		return err
	}
	return checkMessage(m, len(p.buf), n)
}

// latency is ping-pong: one message outstanding, whole round trips.
func (c *cell) latency() (Result, error) {
	var p pinger
	conns := func() int { return 1 }
	if c.transport == TCP {
		s, end, err := c.dial()
		if err != nil {
			return Result{}, err
		}
		defer end()
		p = &tcpPinger{s, make([]byte, c.work.Size)}
	} else if c.transport == IWARP {
		v, end, err := c.newVerbsPinger()
		if err != nil {
			return Result{}, err
		}
		defer end()
		p = v
	} else {
		s, end, err := c.bind()
		if err != nil {
			return Result{}, err
		}
		defer end()
		r := &rdsPinger{s: s, w: c.work, buf: make([]byte, c.work.Size)}
		r.out.To = c.addrs[0]
		if c.work.ZeroCopy {
			r.out.Buffer = &r.m
		}
		p, conns = r, c.rdsConns
	}
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

// pings makes round trips for d, at least one, and returns the number of the next. At an
// offered rate each has its time; one that is late starts at once, and the
// histogram makes up for those that a slow one held up (RecordCorrectedValue).
func (c *cell) pings(p pinger, n uint64, d time.Duration, record func(time.Duration)) (uint64, error) {
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
		if err := p.ping(n); err != nil {
			return n, err
		}
		n++
		now := time.Now()
		record(now.Sub(t))
		t = now
	}
	return n, nil
}
