package main

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"github.com/rds-go/rds/internal/resolve"
)

// hosts are the hosts that settings name, each with its address or why it has none.
type hosts map[string]host

type host struct {
	addr netip.Addr
	err  error
}

// lookUp finds some hosts at the same time, so that many names without an answer cost no
// more time than one. find is resolve.Addr or resolve.Local.
func lookUp(names []string, find func(ctx context.Context, name string) (netip.Addr, error)) hosts {
	found := make([]host, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { found[i].addr, found[i].err = find(context.Background(), name) })
	}
	wg.Wait()
	all := make(hosts)
	for i, name := range names {
		all[name] = found[i]
	}
	return all
}

// listenOn finds the addresses of this host to listen on.
func (s *settings) listenOn(c *checks) (addrs []netip.Addr, prefixes []netip.Prefix) {
	if len(s.Listen) == 0 {
		c.add("listen", "no address: give --listen HOST[,HOST...], or listen in the configuration file")
	}
	var names []string
	for _, l := range s.Listen {
		l = strings.TrimSpace(l)
		switch p, ok := listenPrefix(l, c); {
		case !ok:
			names = append(names, l)
		case p.IsValid():
			prefixes = append(prefixes, p)
		}
	}
	found := lookUp(names, resolve.Local)
	for _, name := range names {
		switch h := found[name]; {
		case h.err != nil:
			c.add("listen", "%v", h.err)
		case h.addr.IsUnspecified() || h.addr.IsMulticast() || h.addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			c.add("listen", "%q is not the address of an interface", name)
		default:
			addrs = append(addrs, h.addr)
		}
	}
	return expand(prefixes, addrs, c), prefixes
}
