package ebpf

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlink"
)

// Abort aborts connections of the network namespace: their sockets here fail with
// ECONNABORTED, and the other ends get a RST. It aborts at most so many, chosen at random; 0
// is all. The result is the number of connections aborted; of one whose ends are both here
// one end is. It needs no program in the kernel.
func (f *Fault) Abort(m FaultMatch, most int) (n int, err error) {
	err = inNetns(f.o.Netns, func() error {
		n, err = abort(m, most)
		return err
	})
	return n, faultAbort.err(err)
}

func abort(m FaultMatch, most int) (n int, err error) {
	ports := m.Ports
	if ports == nil && m.Local.Port() == 0 && m.Remote.Port() == 0 {
		ports = defaultPorts
	}
	end := func(want, have netip.AddrPort) bool {
		return (!want.Addr().IsValid() || want.Addr().Unmap().WithZone("") == have.Addr().WithZone("")) && (want.Port() == 0 || want.Port() == have.Port())
	}
	list, err := netlink.TCP(func(s *netlink.Socket) bool {
		return s.State == netlink.Established && end(m.Local, s.Local) && end(m.Remote, s.Remote) &&
			(len(ports) == 0 || slices.Contains(ports, s.Local.Port()) || slices.Contains(ports, s.Remote.Port()))
	})
	if err != nil {
		return 0, err
	}
	if len(list) == 0 { // who may not abort hears of it all the same
		return 0, probeAbort()
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i := range list {
		if most > 0 && n == most {
			break
		}
		switch err := list[i].Destroy(); {
		case err == nil:
			n++
		case errors.Is(err, unix.ENOENT): // the connection has ended meanwhile, such as by the abort of its other end
		default:
			return n, err
		}
	}
	return n, nil
}

// probeAbort asks the kernel, which looks for the socket before it looks at the capability.
func probeAbort() error {
	if !hasCapability(unix.CAP_NET_ADMIN) {
		return ErrPermission
	}
	return netlink.CanDestroy()
}
