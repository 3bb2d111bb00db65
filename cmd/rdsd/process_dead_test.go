//go:build live

package main

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// Eight sockets of one application, full of messages for a host that does not answer,
// do not keep the application from sending to another host, through an rdsd of each.
func TestADeadPeerDoesNotStallAnApplication(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	here, there := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "b.sock")
	daemonAt(t, "--listen", "127.22.10.5", "--port", "17210", "--socket", here)
	daemonAt(t, "--listen", "127.22.10.6", "--port", "17210", "--socket", there)
	bind := func(path, at string, n int) (out []*rds.Socket) {
		c := clientOf(t, path)
		for i := range n {
			s, err := c.Bind(netip.AddrPortFrom(netip.MustParseAddr(at), uint16(4000+i)))
			must(t, err)
			s.SetLinger(0)
			out = append(out, s)
		}
		return out
	}
	socks, up := bind(here, "127.22.10.5", 9), bind(there, "127.22.10.6", 1)[0]
	dead := netip.MustParseAddrPort("127.22.10.9:4000")
	for _, s := range socks[:8] {
		for range 64 {
			if err := s.TrySend(dead, make([]byte, 64<<10)); err != nil && !errors.Is(err, syscall.EAGAIN) {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, s := range socks { // those that are full of messages for the dead host, and one more
		for _, size := range []int{10, 64 << 10, 1 << 20} {
			must(t, s.Send(ctx, up.LocalAddrPort(), make([]byte, size)))
			m, err := up.Recv(ctx)
			if err != nil || len(m.Data) != size || m.From != s.LocalAddrPort() {
				t.Fatalf("%v from %v, %v", len(m.Data), m.From, err)
			}
			m.Release()
		}
	}
}
