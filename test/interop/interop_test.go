//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"
)

// setting is what the cases run between.
type setting struct {
	order string // of our address and the guest's
	addr  string // ours
	paths int
	rdsd  bool // a program that is attached to an rdsd, whose daemon ends while the program lives on
}

// settings are in an order in which every second one has each order, each number of paths, and
// an rdsd: two kernels share them, and the newer one has the first. RDS_LONG=1 has all on each.
var settings = []setting{
	{"smaller", "10.77.1.1", 1, false},
	{"smaller", "10.77.2.1", 8, false},
	{"larger", "10.77.202.1", 8, false},
	{"larger", "10.77.201.1", 1, false},
	{"rdsd-smaller", "10.77.3.1", 1, true},
	{"rdsd-larger", "10.77.203.1", 8, true},
}

// shared returns the settings of the kernel that stands at place i of n in the list.
func shared(i, n int) []setting {
	if long() || n == 1 {
		return settings
	}
	var list []setting
	for k := (i + 1) % 2; k < len(settings); k += 2 {
		list = append(list, settings[k])
	}
	return list
}

// TestInterop runs every case between one of our nodes and a guest.
func TestInterop(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	kernels, err := findKernels()
	must(t, err)
	testInterop(t, l, shared(0, len(kernels)))
}

func testInterop(t *testing.T, l *lab, settings []setting) {
	guest := l.boot(t, 0, guestAddr)
	for _, c := range settings {
		t.Run(fmt.Sprintf("%s-%d", c.order, c.paths), func(t *testing.T) {
			owner := t // of what outlives a case
			addr := netip.MustParseAddr(c.addr)
			l.addAddr(t, addr)
			var node *process
			if c.rdsd {
				node = l.startApplication(t, addr, c.paths)
			} else {
				node = l.startNode(t, addr, c.paths)
			}
			run := func(name string, f func(t *testing.T)) {
				t.Run(name, func(t *testing.T) {
					defer func() { node.show(t); guest.show(t) }() // before the case's sockets close
					f(t)
				})
			}
			run("ping", func(t *testing.T) { testPing(t, node, guest) })
			run("messages", func(t *testing.T) { testMessages(t, node, guest, c.paths) })
			run("kills", func(t *testing.T) { testKills(t, node, guest, c.paths) })
			run("congestion", func(t *testing.T) { testCongestion(t, node, guest) })
			run("crash", func(t *testing.T) {
				testRestart(t, guest, node, c.paths, func() *process {
					if c.rdsd {
						node.restartDaemon(t, true)
						return node
					}
					node.stop()
					node = l.startNode(owner, addr, c.paths)
					return node
				})
			})
			run("stop", func(t *testing.T) {
				testRestart(t, guest, node, c.paths, func() *process {
					if c.rdsd {
						node.restartDaemon(t, false)
						return node
					}
					node.quit(t)
					node = l.startNode(owner, addr, c.paths)
					return node
				})
			})
			run("contact", func(t *testing.T) { testFirstContact(t, l, node, guest) })
			if c.paths == 1 && !c.rdsd { // it is about connections, which are a node's all the same
				run("together", func(t *testing.T) { testReconnectTogether(t, node, guest) })
			}
			// Last: it also leaves the next round a guest that knows nobody.
			run("reboot", func(t *testing.T) {
				testRestart(t, node, guest, c.paths, func() *process {
					guest.stop()
					idle, start := node.busy(t), time.Now()
					guest = l.boot(t, 0, guestAddr)
					// A node whose peer is away has next to nothing to do.
					work, wall := node.busy(t)-idle, time.Since(start)
					t.Logf("the node worked %v of %v", work, wall.Round(time.Millisecond))
					if work > wall/4 {
						t.Error("the node is busy without its peer")
					}
					return guest
				})
			})
		})
	}
}

// TestOtherKernels runs the cases with RDS on each version of Linux that is installed besides
// the one that all tests run on. The cases with siw are not among them: each kernel would need
// its own source and headers, to build the driver from.
func TestOtherKernels(t *testing.T) {
	t.Parallel()
	if what := missing(); what != "" {
		t.Skip("interop: needs " + what)
	}
	if name := os.Getenv("RDS_INTEROP_KERNEL"); name != "" {
		t.Skip("interop: RDS_INTEROP_KERNEL names the only kernel to test: " + name)
	}
	kernels, err := findKernels()
	must(t, err)
	if len(kernels) == 1 {
		t.Skipf("interop: Linux %s is the only kernel in /boot that has RDS over TCP; a second one is tested too (Debian 12: linux-image-6.12-amd64)", kernels[0].version())
	}
	for i, k := range kernels[1:] {
		t.Run(k.version(), func(t *testing.T) {
			t.Log("kernel", k.release())
			labOf := func(t *testing.T, taps int) *lab {
				return newLabWith(t, taps, k.missingTool, func() (built, error) { return buildGuest(k) })
			}
			t.Run("interop", func(t *testing.T) { testInterop(t, labOf(t, 1), shared(i+1, len(kernels))) })
			t.Run("provider", func(t *testing.T) { testKernelProvider(t, labOf(t, 2)) })
			t.Run("ebpf", func(t *testing.T) { testEBPF(t, labOf(t, 1)) })
		})
	}
}
