package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// onOff is a pflag.Value.
type onOff bool

func (v *onOff) Set(s string) error {
	switch s {
	case "on":
		*v = true
	case "off":
		*v = false
	default:
		return fmt.Errorf("want on or off")
	}
	return nil
}

func (v *onOff) String() string {
	if *v {
		return "on"
	}
	return "off"
}

func (v *onOff) Type() string { return "on|off" }

// terms are the flags that all connections have: with whom, and how.
type terms struct {
	host     string
	port     uint16
	crc      onOff
	markers  bool
	ird, ord int
	maxULPDU int
	timeout  cli.Interval
}

func (t *terms) flags(f *pflag.FlagSet, host string, reads int, timeout time.Duration) {
	t.crc, t.timeout = true, cli.Interval(timeout)
	what := "address or name to listen on"
	if host == "" {
		what = "address or name of the server"
	}
	f.SortFlags = false
	f.StringVarP(&t.host, "address", "a", host, what)
	f.Uint16VarP(&t.port, "port", "p", rpingPort, "its TCP port, which is the RDMA port too; 0 takes any to listen on")
	f.Var(&t.crc, "crc", "on asks for CRCs, off does without if the peer does too")
	f.BoolVar(&t.markers, "markers", false, "ask the peer for markers in its stream; Linux's siw refuses")
	f.IntVar(&t.ird, "ird", reads, "reads and atomics of the peer held at a time; Linux's siw wants a power of two, at most 128")
	f.IntVar(&t.ord, "ord", reads, "reads and atomics of ours that may be outstanding")
	f.IntVar(&t.maxULPDU, "max-ulpdu", 0, "octets of the longest segment to send; 0 makes each fit one of TCP")
	f.VarP(&t.timeout, "timeout", "W", "how long to wait for the peer in each step; 0 is without end")
}

// params are the terms as the library has them, where 0 stands for a default.
func (t *terms) params() (iwarp.ConnParams, error) {
	reads := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	for name, n := range map[string]int{"ird": t.ird, "ord": t.ord} {
		if n < 0 || n > mpa.MaxReads {
			return iwarp.ConnParams{}, cli.Usagef("--%s %d is not in 0..%d", name, n, mpa.MaxReads)
		}
	}
	return iwarp.ConnParams{IRD: reads(t.ird), ORD: reads(t.ord), NoCRC: !bool(t.crc), Markers: t.markers, MaxULPDU: t.maxULPDU}, nil
}

// server returns the address and port of the server to connect to.
func (t *terms) server(ctx context.Context) (netip.AddrPort, error) {
	if t.host == "" {
		return netip.AddrPort{}, cli.Usagef("whose --address?")
	}
	addr, err := lookUp(ctx, t.host)
	return netip.AddrPortFrom(addr, t.port), err
}

// listening returns the address and port of this host to listen on.
func (t *terms) listening(ctx context.Context) (netip.AddrPort, error) {
	addr, err := lookUpLocal(ctx, t.host)
	return netip.AddrPortFrom(addr, t.port), err
}

// lookUp finds a host to talk to.
func lookUp(ctx context.Context, host string) (netip.Addr, error) {
	a, err := resolve.Addr(ctx, host)
	return a, cli.WithStatus(cli.StatusUsage, err)
}

// lookUpLocal finds an address of this host.
func lookUpLocal(ctx context.Context, host string) (netip.Addr, error) {
	a, err := resolve.Local(ctx, host)
	return a, cli.WithStatus(cli.StatusUsage, err)
}

// step bounds one wait for the peer.
func (t *terms) step(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, time.Duration(t.timeout), errTimeout)
}
