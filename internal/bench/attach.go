package bench

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// attach takes the time from nothing to the first answer: attach, bind, send a
// message to the other daemon's application and receive its reply.
func (c *cell) attach() (Result, error) {
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	h := newHist()
	n := 0
	for ; n < c.work.Sockets && !c.interrupted(); n++ {
		start := time.Now()
		p, err := rds.Dial(c.daemons.socket(clientSide))
		if err != nil {
			return Result{}, err
		}
		stop := context.AfterFunc(c.hard, func() { p.Close() })
		err = c.firstAnswer(p, uint64(n))
		h.RecordValue(min(int64(time.Since(start)), maxLatency))
		stop()
		if err := errors.Join(err, p.Close()); err != nil {
			return Result{}, err
		}
	}
	res, err := c.end(m, uint64(n), 2*c.work.Size)
	res.hist, res.Latency, res.TCPConns = h, latencyOf(h), c.rdsConns()
	return res, err
}

func (c *cell) firstAnswer(p rds.Provider, n uint64) error {
	s, err := p.Bind(netip.AddrPortFrom(c.ip, 0))
	if err != nil {
		return err
	}
	e := newRDSEnd(s, c.work, c.addrs[0])
	if err := e.send(n, 1); err != nil {
		return err
	}
	return e.recv(n)
}
