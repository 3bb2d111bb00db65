package report

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// host is a node of a test, in memory, with a socket.
type host struct {
	*rds.Socket
	t    *testing.T
	node *rds.Node
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
