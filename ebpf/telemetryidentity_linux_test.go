//go:build live

package ebpf

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

func soCookie(t *testing.T, c *net.TCPConn) (cookie uint64) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	if e := raw.Control(func(fd uintptr) {
		cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return cookie
}

// A connection is the same one to telemetry before the program accepts it, while the program has
// it, and when the program has closed it and a silent peer does not acknowledge what was sent.
func TestTelemetryKnowsAConnectionFromBeforeAcceptUntilAfterClose(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21008}})
	l := listen(t, b, b.IP4, 21008)
	client := dialTo(t, a, netip.AddrPortFrom(b.IP4, 21008))
	at := func(local, remote netip.AddrPort) (found Connection) {
		t.Helper()
		netlab.Until(t, "the connection is up", func() bool {
			all, err := tel.Snapshot()
			must(t, err)
			i := slices.IndexFunc(all, func(c Connection) bool {
				return c.Local == local && c.Remote == remote && c.State != "syn-received"
			})
			if i >= 0 {
				found = all[i]
			}
			return i >= 0
		})
		return found
	}
	here, there := localOf(client), netip.AddrPortFrom(b.IP4, 21008)
	waiting := at(there, here)
	if waiting.Inode != 0 || waiting.Cookie == 0 {
		t.Errorf("not accepted yet: %+v", waiting)
	}
	server, err := l.AcceptTCP()
	must(t, err)
	t.Cleanup(func() { server.Close() })
	accepted := at(there, here)
	if accepted.Inode == 0 || accepted.Cookie != soCookie(t, server) || !accepted.Continues(&waiting) {
		t.Errorf("accepted, with cookie %d: %+v; before: %+v", soCookie(t, server), accepted, waiting)
	}
	roundTrips(t, client, server, 10, func() {})
	open := at(here, there)
	if open.Inode == 0 || open.RTTs.Count == 0 || open.Cookie != soCookie(t, client) || open.Cookie == accepted.Cookie {
		t.Errorf("open, with cookie %d: %+v", soCookie(t, client), open)
	}
	b.Run("ip", "link", "set", "eth0", "down")
	client.Close()
	closed := at(here, there)
	if closed.State != "fin-wait-1" || closed.Inode != 0 || !closed.Continues(&open) {
		t.Errorf("closed: %+v; before: %+v", closed, open)
	}
}

// Two connections with the same addresses, one after the other, are two: also if the program has
// not accepted one of them, and if the later one has counted more.
func TestTelemetryTellsConnectionsOfTheSameAddressesApart(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21009}})
	l := listen(t, b, b.IP4, 21009)
	local := &net.TCPAddr{IP: a.IP4.AsSlice(), Port: 30000}
	var seen []Connection
	for i := range 2 {
		var client *net.TCPConn
		var err error
		a.Do(func() { client, err = net.DialTCP("tcp", local, l.Addr().(*net.TCPAddr)) })
		must(t, err)
		t.Cleanup(func() { client.Close() })
		server, err := l.AcceptTCP()
		must(t, err)
		t.Cleanup(func() { server.Close() })
		roundTrips(t, client, server, 10*(i+1), func() {})
		seen = append(seen, find(t, tel, client))
		for _, c := range []*net.TCPConn{client, server} {
			_ = c.SetLinger(0) // no TIME_WAIT: the addresses are used again
			c.Close()
		}
	}
	seen[0].Inode = 0 // as one that is closed and lingers
	if seen[0].RTTs.Count > seen[1].RTTs.Count || seen[0].Local != seen[1].Local {
		t.Fatalf("the test does not try what it should: %+v", seen)
	}
	if seen[1].Continues(&seen[0]) {
		t.Errorf("%+v continues %+v", seen[1], seen[0])
	}
}
