//go:build !live

package report

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
)

// host is a node of a test, in memory, with a socket.
type host struct {
	*rds.Socket
	t    *testing.T
	node *rds.Node
}

// bubble runs a test of hosts in a bubble of testing/synctest.
func bubble(t *testing.T, test func(t *testing.T, host func(rds.Config) host, l *rdstest.Lab)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := rdstest.NewLoopLab(t)
		test(t, func(cfg rds.Config) host {
			n := rdstest.Start(&l, rds.NewNode, cfg)
			return host{rdstest.Bind(t, n), t, n}
		}, &l)
	})
}

// send sends in the background until the test ends; the sender may block.
func (h host) send(to netip.AddrPort, sizes ...int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for _, n := range sizes {
			if h.Send(ctx, to, make([]byte, n)) != nil {
				return
			}
		}
	}()
}

// waits is what rdsinfo why says about an address, of all if it is not valid.
func (h host) waits(addr netip.Addr) []rds.WaitInfo {
	info := rdstest.Report(h.t, h.node)
	return about(&info, addr)
}

// await returns the first wait for this cause that is as it should be, as soon as there is
// one.
func (h host) await(cause string, ok func(*rds.WaitInfo) bool) (found rds.WaitInfo) {
	h.t.Helper()
	rdstest.Eventually(h.t, "a wait for "+cause, func() bool {
		all := h.waits(netip.Addr{})
		i := slices.IndexFunc(all, func(w rds.WaitInfo) bool { return w.Cause == cause && ok(&w) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	if found.Hint == "" || found.Since.After(time.Now()) || time.Since(found.Since) > rdstest.Patience {
		h.t.Errorf("no hint, or a time that cannot be: %+v", found)
	}
	return found
}

func blocked(w *rds.WaitInfo) bool { return w.Senders == 1 }

func TestWhyUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, _ *rdstest.Lab) {
		h, to, other := host(rds.Config{}), rdstest.Nowhere(), rdstest.Nowhere()
		text := func(about netip.Addr) string {
			info := rdstest.Report(t, h.node)
			var b strings.Builder
			rdstest.Must(t, WriteWhy(&b, &info, about))
			return b.String()
		}
		if got := text(netip.Addr{}); got != "nothing waits\n" {
			t.Error(got)
		}
		h.send(to, 100, 20)
		w := h.await(rds.CauseUnreachable, func(w *rds.WaitInfo) bool {
			return w.Tries > 1 && w.Messages == 2 && !w.NextTry.IsZero()
		})
		local := h.LocalAddrPort()
		if w.Local != local || w.Remote != to || w.Bytes != 120 || !strings.Contains(w.Error, "connection refused") {
			t.Errorf("%+v", w)
		}
		for addr, want := range map[netip.Addr]int{to.Addr(): 1, local.Addr(): 1, other.Addr(): 0} {
			if got := h.waits(addr); len(got) != want {
				t.Errorf("%v: %+v", addr, got)
			}
		}
		got := text(to.Addr())
		for _, part := range []string{local.String() + " cannot reach " + to.Addr().String() + " (path 0) since ", ", 2 messages, 120 bytes; ", "last error: ", " attempts failed)", "are TCP ports 18634 and 16385 open"} {
			if !strings.Contains(got, part) || strings.Count(got, "\n") != 1 {
				t.Errorf("no %q in %s", part, got)
			}
		}
	})
}

// A host that accepts connections and says nothing is one whose RDS hangs.
func TestWhyHandshake(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, l *rdstest.Lab) {
		h, to, mute := host(rds.Config{}), rdstest.Nowhere(), l.Net.Transport()
		t.Cleanup(func() { _ = mute.Close() })
		rdstest.Must(t, mute.Listen(to.Addr(), func(transport.Link) {}))
		h.send(to, 100)
		w := h.await(rds.CauseHandshake, func(w *rds.WaitInfo) bool { return w.Messages == 1 })
		if w.Local != h.LocalAddrPort() || w.Remote != to {
			t.Errorf("%+v", w)
		}
	})
}

func TestWhyCongested(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, _ *rdstest.Lab) {
		from, to := host(rds.Config{}), host(rds.Config{})
		rdstest.Must(t, to.SetReadBuffer(1000))
		from.send(to.LocalAddrPort(), slices.Repeat([]int{500}, 100_000)...)
		w := from.await(rds.CauseCongested, blocked)
		if w.Local != from.LocalAddrPort() || w.Remote != to.LocalAddrPort() {
			t.Errorf("the sender: %+v", w)
		}
		w = to.await(rds.CauseReceiver, func(w *rds.WaitInfo) bool { return w.Bytes > 1000 && w.Messages > 2 })
		if w.Local != to.LocalAddrPort() || w.PID != 0 {
			t.Errorf("the receiver: %+v", w)
		}
	})
}

func TestWhyBudgetOfPeer(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, _ *rdstest.Lab) {
		h, to := host(rds.Config{PeerBudget: 1}), rdstest.Nowhere()
		h.send(to, 100, 100)
		w := h.await(rds.CauseBudget, blocked)
		if w.Local != h.LocalAddrPort() || w.Remote.Addr() != to.Addr() {
			t.Errorf("%+v", w)
		}
		if w := h.await(rds.CauseUnreachable, func(*rds.WaitInfo) bool { return true }); w.Messages != 1 {
			t.Errorf("%+v", w)
		}
	})
}

func TestWhySendBuffer(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, _ *rdstest.Lab) {
		h := host(rds.Config{SendBuffer: 1000})
		h.send(rdstest.Nowhere(), 1000, 1)
		w := h.await(rds.CauseSendBuffer, blocked)
		if w.Local != h.LocalAddrPort() || w.Remote.IsValid() {
			t.Errorf("%+v", w)
		}
	})
}

// A full socket stops a path of RDS over TCP.
func TestWhyPaused(t *testing.T) {
	bubble(t, func(t *testing.T, host func(rds.Config) host, _ *rdstest.Lab) {
		from, to := host(rds.Config{}), host(rds.Config{ReceiveBuffer: 1 << 20, ReceiveOverrun: 1})
		from.send(to.LocalAddrPort(), slices.Repeat([]int{64 << 10}, 100)...)
		w := to.await(rds.CausePaused, func(*rds.WaitInfo) bool { return true })
		if w.Local != to.LocalAddrPort() || w.Remote.Addr() != from.LocalAddrPort().Addr() {
			t.Errorf("%+v", w)
		}
		for range 100 {
			m := rdstest.MustRecv(t, to)
			m.Release()
		}
		synctest.Wait()
		if slices.ContainsFunc(to.waits(netip.Addr{}), func(w rds.WaitInfo) bool { return w.Cause == rds.CausePaused }) {
			t.Error("the pause does not end")
		}
	})
}
