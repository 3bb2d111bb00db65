//go:build live

package gnetloop

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// oneHost is a gate for one address.
type oneHost struct {
	addr   netip.Addr
	turned atomic.Int32 // connections that were not admitted
}

func (g *oneHost) Admits(remote netip.Addr) bool {
	if remote == g.addr {
		return true
	}
	g.turned.Add(1)
	return false
}

func (g *oneHost) Allows(remote netip.Addr) bool { return remote == g.addr }

func (g *oneHost) Listed(remote netip.Addr) bool { return remote == g.addr }

// A connection that the gate does not admit is reset before anybody above hears of it, and
// an address that it does not allow is not dialed.
func TestGate(t *testing.T) {
	t.Parallel()
	friend, stranger := newAddr(), newAddr()
	g := &oneHost{addr: friend.Addr()}
	e := newEngine(t, Options{Gate: g})
	addr, accepted := listen(t, e)
	for i := range int32(3) {
		c, err := (&net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(stranger.Addr(), 0))}).Dial("tcp", addr.String())
		if err == nil { // else the connection was reset at once
			_ = c.SetDeadline(time.Now().Add(streamtest.Patience))
			if _, err = c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("a stranger's connection ends with %v", err)
			}
			_ = c.Close()
		}
		streamtest.Eventually(t, "the gate is asked", func() bool { return g.turned.Load() == i+1 })
	}
	e.mu.Lock()
	if n := len(e.conns); n != 0 {
		t.Errorf("%d connections of strangers", n)
	}
	e.mu.Unlock()
	c, err := (&net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(friend.Addr(), 0))}).Dial("tcp", addr.String())
	streamtest.Must(t, err)
	defer c.Close()
	if got := streamtest.Receive(t, accepted); got.RemoteAddr().Addr() != friend.Addr() {
		t.Errorf("accepted %v", got.RemoteAddr())
	} else {
		got.Close(transport.Abort)
	}
	if _, err := e.Dial(t.Context(), newAddr(), stranger); !errors.Is(err, transport.ErrNotAllowed) || !errors.Is(err, unix.EACCES) {
		t.Errorf("a stranger is dialed: %v", err)
	}
	if _, err := e.Dial(t.Context(), newAddr(), friend); errors.Is(err, transport.ErrNotAllowed) || err == nil {
		t.Errorf("the dial of a friend who does not listen: %v", err)
	}
}
