//go:build live

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// halfOpens makes connections from addresses of 127.0.0.0/8 that say a part of what has to
// be said first, and keeps them.
type halfOpens struct {
	mu    sync.Mutex
	conns []net.Conn
	made  atomic.Int64
}

// add makes one. What refuses it, or has no descriptor for it, is no matter.
func (h *halfOpens) add(from netip.Addr, to netip.AddrPort, says string) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	c, err := d.Dial("tcp4", to.String())
	if err != nil {
		return
	}
	_, _ = c.Write([]byte(says))
	h.made.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns = append(h.conns, c); len(h.conns) > 5000 {
		_ = h.conns[0].Close()
		h.conns = h.conns[1:]
	}
}

func (h *halfOpens) close() {
	for _, c := range h.conns {
		_ = c.Close()
	}
}

// honestPeer is a new application of a daemon and a new peer, which have an exchange.
func honestPeer(ctx context.Context, t *testing.T, attach string, at netip.AddrPort, host byte) {
	t.Helper()
	c, err := rds.NewClient(rds.ClientConfig{Path: attach})
	if err != nil {
		t.Fatalf("an application cannot attach: %v", err)
	}
	defer c.Close()
	s, err := c.Bind(netip.AddrPortFrom(at.Addr(), 0))
	must(t, err)
	peer, err := rds.NewNode(rds.Config{Port: at.Port(), Linger: -1, XRC: rds.XRCConfig{Patience: 20 * time.Second}})
	must(t, err)
	defer peer.Close()
	p, err := peer.Bind(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 22, 32, host}), 4000))
	must(t, err)
	must(t, rdstest.Converse(ctx, p, s, 1))
}

// 5,000 set-ups that are begun and not finished, from many addresses and then 5,000 from one,
// on both ports of a daemon that may have 1,024 descriptors. It leaves a quarter of
// them alone. Meanwhile applications attach and
// peers that are new connect.
func TestHalfOpenSetUpsStarveNobody(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	const address, port = "127.22.31.5", 17231
	d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, "sh", "-c",
		"ulimit -n 1024; exec "+bin.Path("rdsd")+" --listen "+address+fmt.Sprintf(" --port %d --socket %s --control %s", port, attach, ctl))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d.Line(d.Stderr, "ready")
	descriptors := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
		must(t, err)
		return len(fds)
	}
	base, most := descriptors(), 0
	var h halfOpens
	defer h.close()
	at := netip.MustParseAddr(address)
	begin := func(from netip.Addr, i int) {
		to, says := netip.AddrPortFrom(at, port^1), "MPA ID Req Frame"
		if i%2 == 1 {
			to, says = netip.AddrPortFrom(at, port), "\x00\x00\x00"
		}
		h.add(from, to, says)
	}
	honest := func(round int) { honestPeer(ctx, t, attach, netip.AddrPortFrom(at, port), byte(round+1)) }
	for kind, from := range []func(i int) netip.Addr{
		func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 100 + byte(i%97), byte(i / 97), 7}) },
		func(int) netip.Addr { return netip.AddrFrom4([4]byte{127, 99, 0, 1}) },
	} {
		var attack sync.WaitGroup
		var done atomic.Bool
		attack.Go(func() {
			for i := range 5000 {
				begin(from(i), i)
			}
			done.Store(true)
		})
		for round := 0; round < 2 || !done.Load(); round++ {
			honest(100*kind + round%100)
			most = max(most, descriptors())
		}
		attack.Wait()
		most = max(most, descriptors())
		honest(100*kind + 100)
	}
	if n := h.made.Load(); n < 5000 {
		t.Errorf("only %d set-ups were begun", n)
	}
	if most > 768+64 { // the last quarter is for others, but for connections that are just ending
		t.Errorf("%d descriptors, %d before", most, base)
	}
	if x, y := counterOf(t, ctl, "xrc_setups_crowded"), counterOf(t, ctl, "tcp_setups_crowded"); x == 0 || y == 0 {
		t.Errorf("%d and %d set-ups ended for others", x, y)
	}
	if s := d.Stderr.String(); strings.Contains(s, "cannot accept") {
		t.Errorf("the daemon was out of descriptors:\n%s", s)
	}
	t.Logf("%d set-ups begun; %d descriptors before, %d at most", h.made.Load(), base, most)
}
