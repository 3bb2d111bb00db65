//go:build live && !race

package daemon

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// Sixteen applications talk to sixteen sockets of one host after the other. When a pair of hosts is idle again, it
// takes 64 KiB of each of the two at most, stacks of goroutines included. Not parallel: it measures the memory of the process,
// which is both ends of each pair.
func TestMemoryOfAPairOfHosts(t *testing.T) {
	const applications, first, more, most = 16, 8, 32, 64 << 10
	for _, wire := range []config.Wire{config.WireTCP, config.WireXRC} {
		t.Run(string(wire), func(t *testing.T) {
			l := rdstest.NewLab(t)
			own := rdstest.NewAddr()
			hosts := make([]netip.Addr, first+more)
			for k := range hosts {
				hosts[k] = rdstest.NewAddr()
			}
			n := rdstest.Start(&l, node.New, config.Node{Wire: wire, Serves: true, Addresses: []netip.Addr{own}})
			_, path := rdstest.Serve(t, New, n, config.Service{})
			peers := rdstest.Start(&l, node.New, config.Node{Wire: wire, Addresses: hosts})
			var apps [applications]*socket.Socket
			far := make([][applications]*socket.Socket, len(hosts))
			for k := range apps {
				port := uint16(4000 + k)
				apps[k] = rdstest.Bind(t, rdstest.Attach(t, client.Dial, path), netip.AddrPortFrom(own, port))
				for h, a := range hosts {
					far[h][k] = rdstest.Bind(t, peers, netip.AddrPortFrom(a, port))
				}
			}
			meet := func(h int) {
				for _, app := range apps {
					for _, s := range far[h] {
						rdstest.MustSend(t, app, s.LocalAddrPort(), []byte("there"))
						rdstest.Expect(t, s, "there")
						rdstest.MustSend(t, s, app.LocalAddrPort(), []byte("back"))
						rdstest.Expect(t, app, "back")
					}
				}
			}
			for h := range first {
				meet(h)
			}
			before := inUse()
			for h := range more {
				meet(first + h)
			}
			each := int64(0)
			if !rdstest.Holds(rdstest.Patience/2, func() bool { each = (inUse() - before) / (2 * more); return each <= most }) { // bursts keep their memory for a second
				t.Errorf("each end of a pair of hosts takes %d bytes, more than %d", each, most)
			}
			t.Logf("each end of a pair of hosts takes %d bytes", each)
		})
	}
}

// inUse is the memory of objects and stacks.
func inUse() int64 {
	heap := rdstest.Heap()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap + int64(m.StackInuse)
}
