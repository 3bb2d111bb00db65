package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// maxListen bounds the addresses that the prefixes of listen have, in all.
const maxListen = 65536

// handoverSettings say whether the kernel brings the connections to many addresses to one
// listening socket.
type handoverSettings struct {
	Kernel string `toml:"kernel"`
	Pins   string `toml:"pins"`
}

func (h *handoverSettings) check(c *checks) {
	if !slices.Contains([]string{kernelAuto, kernelRequire, kernelOff}, h.Kernel) {
		c.add("handover.kernel", "%q is none of %s, %s and %s", h.Kernel, kernelAuto, kernelRequire, kernelOff)
	}
	if h.Pins == "" && h.Kernel != kernelOff {
		c.add("handover.pins", "no directory")
	}
}

// listenPrefix reads a prefix to listen on. ok is false if the text is a single address or a
// name.
func listenPrefix(text string, c *checks) (p netip.Prefix, ok bool) {
	if !strings.Contains(text, "/") {
		return p, false
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		c.add("listen", `%q is neither a prefix such as "10.1.0.0/20" nor an address or a name`, text)
	case p != p.Masked():
		c.add("listen", "%q has bits behind its length: %v is the prefix, %v the address", text, p.Masked(), p.Addr())
	case p.Addr().Is4In6():
		c.add("listen", "%q is an IPv4 prefix in the form of IPv6", text)
	case p.Addr().IsMulticast() || p.Contains(netip.IPv4Unspecified()) || p.Contains(netip.IPv6Unspecified()):
		c.add("listen", "%q has addresses that no interface has", text)
	case p.Addr().BitLen()-p.Bits() > 16:
		c.add("listen", "%q has more than %d addresses", text, maxListen)
	default:
		return p, true
	}
	return netip.Prefix{}, true
}

// expand returns all addresses of prefixes, which do not overlap, and of others. Also the first
// and the last address of a prefix are used: as addresses of a host they are like the others.
func expand(prefixes []netip.Prefix, others []netip.Addr, c *checks) []netip.Addr {
	for i, p := range prefixes {
		if slices.ContainsFunc(prefixes[:i], p.Overlaps) {
			c.add("listen", "%v is in another prefix, or has one in it", p)
			return others
		}
	}
	total := 0
	for _, p := range prefixes {
		total += 1 << (p.Addr().BitLen() - p.Bits())
	}
	if total > maxListen {
		c.add("listen", "%d addresses, at most %d", total, maxListen)
		return others
	}
	all := slices.DeleteFunc(others, func(a netip.Addr) bool {
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	})
	for _, p := range prefixes {
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			all = append(all, a)
		}
	}
	return all
}

// handOn has the node listen through the pins, if they are to be used and there. auto listens
// without them, on each address.
func (s *settings) handOn(p *plan, log *zap.Logger) error {
	if s.Handover.Kernel == kernelOff {
		return nil
	}
	h, err := ebpf.OpenHandover(s.Handover.Pins)
	if err == nil {
		err = s.Handover.handsOver(h, p.node.Ports())
	}
	switch {
	case err != nil && s.Handover.Kernel == kernelRequire:
		return cli.WithStatus(statusConfig, fmt.Errorf("handover.kernel: %s, and %w", kernelRequire, err))
	case err != nil:
		if len(p.prefixes) > 0 || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, ebpf.ErrNotSupported) {
			log.Info("the kernel hands no connections over: each address has its own listening sockets",
				zap.Int("addresses", len(p.node.Addresses)), zap.Error(err))
		}
		return nil
	}
	p.node.Shared = &rds.SharedListeners{Prefixes: p.prefixes, Register: func(prefixes []netip.Prefix, ln *net.TCPListener) error {
		return h.Register(prefixes, ln.Addr().(*net.TCPAddr).AddrPort().Port(), ln)
	}}
	log.Info("the kernel hands connections over", zap.Int("addresses", len(p.node.Addresses)),
		zap.Int("prefixes", len(p.prefixes)), zap.String("pins", s.Handover.Pins))
	return nil
}

// handsOver checks that the handover is of the daemon's network namespace and has its ports.
// After an error h is closed.
func (c *handoverSettings) handsOver(h *ebpf.Handover, ports []uint16) error {
	st, err := h.Status()
	if err == nil && !st.Here {
		err = fmt.Errorf("the handover in %s is of another network namespace", c.Pins)
	}
	for _, port := range ports {
		if err == nil && !slices.Contains(st.Ports, port) {
			err = fmt.Errorf("port %d is none of the handover's, %v: see rdsbpf load --port", port, st.Ports)
		}
	}
	if err != nil {
		_ = h.Close()
	}
	return err
}
