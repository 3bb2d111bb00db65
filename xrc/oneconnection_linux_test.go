//go:build live

package xrc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/info"
)

// connections is how many TCP connections the kernel has between two addresses of this machine.
func connections(t testing.TB, a, b netip.Addr) int {
	t.Helper()
	list, err := os.ReadFile("/proc/self/net/tcp")
	must(t, err)
	hex := func(a netip.Addr) string {
		b := a.As4()
		return fmt.Sprintf("%08X:", binary.NativeEndian.Uint32(b[:]))
	}
	n := 0
	for line := range strings.Lines(string(list)) {
		const established = "01"
		if f := strings.Fields(line); strings.HasPrefix(f[1], hex(a)) && strings.HasPrefix(f[2], hex(b)) && f[3] == established {
			n++
		}
	}
	return n
}

// Sixteen processes on each of two hosts talk to all of the other host's, by sockets and, where the wire is XRC, by initiators
// of their own. The daemons have one connection for all of them, or as many as there are to be.
func TestProcessesOfAPairOfHostsShareAConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire  config.Wire
		paths int
	}{{config.WireTCP, 1}, {config.WireTCP, 8}, {config.WireXRC, 1}} {
		t.Run(fmt.Sprintf("%v, %d", c.wire, c.paths), func(t *testing.T) {
			t.Parallel()
			l := rdstest.NewLab(t)
			var hosts [2]host
			for k := range hosts {
				h := &hosts[k]
				h.addr = rdstest.NewAddr()
				h.node = rdstest.Start(&l, node.New, config.Node{Wire: c.wire, Paths: c.paths, Serves: true, Addresses: []netip.Addr{h.addr}})
				h.svc, h.path = rdstest.Serve(t, daemon.New, h.node, config.Service{})
				if c.wire == config.WireXRC {
					newProcess(t, h, nil, talkers, 2*talkers).advertise(t, 7)
				}
			}
			var all []*worker
			for k := range talkers {
				for i, h := range hosts {
					w := startProcess(t, nil, talkerRole, h.path, netip.AddrPortFrom(h.addr, uint16(4000+k)).String(), hosts[1-i].addr.String(), strconv.FormatBool(c.wire == config.WireXRC))
					all = append(all, w)
				}
			}
			for _, w := range all {
				w.hear("ready")
			}
			for _, w := range all {
				fmt.Fprintln(w.in, "talk")
			}
			for _, w := range all {
				if err := w.hear("did talk"); err != "<nil>" {
					t.Error(err)
				}
			}
			for k, h := range hosts {
				other := hosts[1-k].addr
				// The kernel's list may leave a socket out while others come and go, and never has one twice. It has a
				// connection before the node has accepted it.
				n, wires, sessions := 0, 0, talkers
				var report info.Report
				rdstest.Eventually(t, "the kernel and the node to list all connections", func() bool {
					var err error
					report, err = h.node.Info()
					must(t, err)
					if n, wires = connections(t, h.addr, other), len(report.TCP); c.wire == config.WireXRC {
						wires = len(report.XRC)
					}
					return n >= c.paths && wires >= c.paths
				})
				if n != c.paths {
					t.Errorf("the kernel has %d connections from %v to %v, want %d", n, h.addr, other, c.paths)
				}
				if c.wire == config.WireXRC {
					sessions++
				}
				if n := len(report.Connections); n != 1 || report.Connections[0].Remote != other || report.Connections[0].Paths != c.paths || wires != c.paths || len(report.Sessions) != sessions {
					t.Errorf("%d sessions have %d connections, of %d paths, by %d of %v", len(report.Sessions), n, report.Connections[0].Paths, wires, c.wire)
				}
			}
		})
	}
}
