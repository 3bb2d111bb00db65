package bench

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// appHost is the address of the i-th further application that is a node by itself.
func appHost(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, byte(i + 1)}) }

// applications starts n processes on a side that attach to its daemon, or are nodes on
// addresses of their own. They have as many processors as a user's program has, but over
// OneProcessor. The function returned ends them.
func (c *cell) applications(s side, n int) (apps children, end func(), err error) {
	var flags []string
	if c.transport == OneProcessor {
		flags = []string{"--procs", "1"}
	}
	end = func() { apps.end() }
	h, ip := *c.hello, c.runner.ip(s)
	if c.daemons != nil {
		h = hello{Version: controlVersion, Provider: rds.ProviderDaemon, Socket: c.daemons.socket(s)}
	}
	for i := range n {
		if c.daemons == nil {
			ip = appHost(i)
		}
		a, err := c.runner.startOn("application", s, ip, flags...)
		if err != nil {
			end()
			return nil, nil, err
		}
		a.watch(c.lose)
		context.AfterFunc(c.hard, a.kill)
		apps = append(apps, a)
	}
	if _, err := apps.call(func(int) request { return request{Op: opHello, Hello: &h} }); err != nil {
		end()
		return nil, nil, err
	}
	return apps, end, nil
}

// pairs starts n applications on each side, each of the client's with one of the server's
// that it sends to, one way. The function returned ends them, also after an error.
func (c *cell) pairs(n int, w *Work) (senders, receivers children, end func(), err error) {
	end = func() { senders.end(); receivers.end() }
	if receivers, _, err = c.applications(serverSide, n); err != nil {
		return nil, nil, end, err
	}
	if senders, _, err = c.applications(clientSide, n); err != nil {
		return nil, receivers, end, err
	}
	opened, err := receivers.call(func(int) request { return request{Op: opOpen, Work: w, Transport: RDS} })
	if err == nil {
		_, err = senders.call(func(i int) request { return request{Op: opSend, Work: w, Addrs: opened[i].Addrs} })
	}
	return senders, receivers, end, err
}
