//go:build live

package gnetloop

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// names is a Gate that lists one address.
type names netip.Addr

func (names) Admits(netip.Addr) bool     { return true }
func (names) Allows(netip.Addr) bool     { return true }
func (n names) Listed(a netip.Addr) bool { return a == netip.Addr(n) }

// Connections that say nothing are no more than the bounds allow, one that is settled or
// whose peer is listed does not count, and one that has to end for another one is told why.
// Nor does one count that has ended.
func TestHalfOpenIsBounded(t *testing.T) {
	t.Parallel()
	listed := newAddr().Addr()
	e := newEngine(t, Options{HalfOpen: 20, HalfOpenEach: 4, Gate: names(listed)})
	addr, accepted := listen(t, e)
	dial := func(from netip.Addr) (*net.TCPConn, *Conn, *streamtest.Recorder) {
		t.Helper()
		c, err := net.DialTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.TCPAddrFromAddrPort(addr))
		streamtest.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		conn, r := streamtest.Receive(t, accepted), streamtest.NewRecorder(t)
		start(t, conn, r)
		return c, conn, r
	}
	greedy := newAddr().Addr()
	peer, settled, kept := dial(greedy)
	settled.Settled()
	_, _, first := dial(greedy)
	var others []*net.TCPConn
	for range 4 {
		c, _, _ := dial(greedy) // the last of them may stay, if two of the addresses below have a network in common
		others = append(others, c)
	}
	if cause := streamtest.Receive(t, first.Ended); cause != errCrowded || !errors.Is(cause, unix.ECONNRESET) {
		t.Errorf("Closed(%v)", cause)
	}
	for range 10 {
		dial(listed)
	}
	for range 30 {
		c, _, _ := dial(newAddr().Addr())
		others = append(others, c)
	}
	s := e.Stats()
	if s.HalfOpen != 20 || s.Crowded != 15 {
		t.Errorf("%d half-open connections, %d ended", s.HalfOpen, s.Crowded)
	}
	for _, c := range others {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	streamtest.Eventually(t, "connections that have ended do not count", func() bool { return e.Stats().HalfOpen == 0 })
	write(t, peer, []byte{7})
	kept.WaitStream(t, []byte{7})
	settled.Close(transport.Abort)
}
