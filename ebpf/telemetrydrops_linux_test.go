//go:build live

package ebpf

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// dropped is how many packets were dropped for a reason.
func dropped(t *testing.T, tel *Telemetry, reason string) uint64 {
	t.Helper()
	drops, err := tel.Drops()
	must(t, err)
	for _, d := range drops {
		if d.Reason == reason {
			return d.Packets
		}
	}
	return 0
}

func TestTelemetryTellsWhyPacketsAreDropped(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	for i, c := range []struct {
		reason string
		cause  func(t *testing.T, to netip.AddrPort) (packets uint64) // at least; makes them be dropped
	}{
		{"NO_SOCKET", func(t *testing.T, to netip.AddrPort) uint64 {
			for range 3 {
				var err error
				a.Do(func() { _, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to)) })
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("a connection to a port without a listener: %v", err)
				}
			}
			return 3
		}},
		{"TCP_CSUM", func(t *testing.T, to netip.AddrPort) uint64 {
			a.Do(func() { badChecksum(t, a.IP4, to) })
			return 1
		}},
	} {
		tel := measure(t, TelemetryOptions{Ports: []uint16{uint16(21020 + i)}})
		for _, ip := range []netip.Addr{b.IP4, b.IP6} {
			if c.reason == "TCP_CSUM" && ip == b.IP6 {
				continue // the raw packet is IPv4
			}
			before := dropped(t, tel, c.reason)
			packets := c.cause(t, netip.AddrPortFrom(ip, uint16(21020+i)))
			netlab.Until(t, "packets are dropped: "+c.reason, func() bool { return dropped(t, tel, c.reason) >= before+packets })
		}
		// Other ports do not count.
		before := dropped(t, tel, "NO_SOCKET")
		a.Do(func() { _, _ = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(b.IP4, 21030))) })
		if n := dropped(t, tel, "NO_SOCKET"); n != before {
			t.Errorf("%d packets of another port", n-before)
		}
	}
}

// badChecksum sends a SYN with a wrong TCP checksum.
func badChecksum(t *testing.T, from netip.Addr, to netip.AddrPort) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	syn := make([]byte, 20)
	binary.BigEndian.PutUint16(syn, 40000)
	binary.BigEndian.PutUint16(syn[2:], to.Port())
	syn[12], syn[13] = 5<<4, 2
	binary.BigEndian.PutUint16(syn[16:], 0xdead)
	if err := unix.Sendto(fd, syn, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}); err != nil {
		t.Errorf("from %v: %v", from, err)
	}
}
