package iwarp

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// What Limits promises is taken, and one more is not.
func TestLimitsAreWhereRefusalBegins(t *testing.T) {
	t.Parallel()
	d := openDevice(t, Config{EventLoops: 1})
	e := newEnd(t, d, QPConfig{})
	l := d.Limits()
	queue := func(set func(*QPConfig, int)) func(int) error {
		return func(n int) error {
			cfg := QPConfig{SendCQ: e.cq, RecvCQ: e.cq}
			set(&cfg, n)
			q, err := e.pd.CreateQP(cfg)
			if err == nil {
				err = q.Close()
			}
			return err
		}
	}
	params := func(set func(*ConnParams, int)) func(int) error {
		return func(n int) error {
			var p ConnParams
			set(&p, n)
			return p.validate()
		}
	}
	for name, c := range map[string]struct {
		most int
		try  func(int) error
	}{
		"MaxSend":    {l.MaxSend, queue(func(c *QPConfig, n int) { c.MaxSend = n })},
		"MaxReceive": {l.MaxReceive, queue(func(c *QPConfig, n int) { c.MaxReceive = n })},
		"MaxInline":  {l.MaxInline, queue(func(c *QPConfig, n int) { c.MaxInline = n })},
		"MaxCQ": {l.MaxCQ, func(n int) error {
			cq, err := d.CreateCQ(n)
			if err == nil {
				err = cq.Close()
			}
			return err
		}},
		"MaxSGE": {l.MaxSGE, func(n int) error {
			_, err := e.qp.PostReceive(ReceiveRequest{SGE: make([]SGE, n)})
			return err
		}},
		"MaxReads of IRD": {l.MaxReads, params(func(p *ConnParams, n int) { p.IRD = n })},
		"MaxReads of ORD": {l.MaxReads, params(func(p *ConnParams, n int) { p.ORD = n })},
		"MaxULPDU":        {l.MaxULPDU, params(func(p *ConnParams, n int) { p.MaxULPDU = n })},
		"MaxPrivate":      {l.MaxPrivate, params(func(p *ConnParams, n int) { p.Private = make([]byte, n) })},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.try(c.most); err != nil {
				t.Errorf("%d: %v", c.most, err)
			}
			err := c.try(c.most + 1)
			if err == nil {
				t.Errorf("%d is taken", c.most+1)
			}
			if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, mpa.ErrRange) && !errors.Is(err, mpa.ErrPrivate) {
				t.Errorf("%d: %v", c.most+1, err)
			}
		})
	}
}

// A peer may raise IRD to MaxIRD; one that wants more is refused and told how
// much there is (RFC 6581 section 9.1).
func TestPeerRaisesIRDToMaxIRD(t *testing.T) {
	t.Parallel()
	d := openDevice(t, Config{EventLoops: 1})
	most := d.Limits().MaxIRD
	client, server := newEnd(t, d, QPConfig{}), newEnd(t, d, QPConfig{})
	connectEnds(t, client, server, ConnParams{ORD: most}, ConnParams{IRD: 1})
	if client.est.ORD != most || server.est.IRD != most {
		t.Errorf("ORD %d, the peer's IRD %d; want %d", client.est.ORD, server.est.IRD, most)
	}

	ctx := within(t)
	ln, err := d.Listen(netip.AddrPortFrom(loopback, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	refused, fresh := make(chan error, 1), newEnd(t, d, QPConfig{})
	go func() {
		in, err := ln.Accept(ctx)
		if err == nil {
			_, err = in.Accept(ctx, fresh.qp, ConnParams{IRD: 1})
		}
		refused <- err
	}()
	_, err = d.Connect(ctx, newEnd(t, d, QPConfig{}).qp, ln.Addr(), ConnParams{ORD: most + 1})
	var r *RejectedError
	if !errors.As(err, &r) || int(r.Prefix.IRD) != most {
		t.Errorf("ORD %d: %v, %+v", most+1, err, r)
	}
	if err := <-refused; !errors.Is(err, mpa.ErrDepth) {
		t.Errorf("accepting that: %v", err)
	}
}
