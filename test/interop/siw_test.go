//go:build interop

package interop

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSIW runs our iWARP against Linux's.
func TestSIW(t *testing.T) {
	t.Parallel()
	l, guests := newSIWLab(t, guestAddr)
	ours, siw := l.ourVerbs(t, netip.MustParseAddr("10.77.1.1")), l.siwVerbs(guests[0])
	t.Run("rping", func(t *testing.T) { testRpings(t, ours, siw) })
	t.Run("messages to siw", func(t *testing.T) { testVerbMessages(t, ours, siw) })
	t.Run("messages to us", func(t *testing.T) { testVerbMessages(t, siw, ours) })
	t.Run("faults to siw", func(t *testing.T) { testFaults(t, ours, siw) })
	t.Run("faults to us", func(t *testing.T) { testFaults(t, siw, ours) })
	t.Run("resets to siw", func(t *testing.T) { testResets(t, ours, siw) })
	t.Run("resets to us", func(t *testing.T) { testResets(t, siw, ours) })
	t.Run("perftest", func(t *testing.T) {
		for i, p := range perftests {
			t.Run(p.program, func(t *testing.T) { testPerfserver(t, siw, ours, p, i%2 == 0) })
		}
	})
}

// TestSIWToSIW runs cases on a guest alone and between two: what fails here is
// the harness's fault or the kernel's, and what siw answers to faults is the
// reference for what we do. It runs on demand, to judge the harness: siw, as the
// side that accepts, may overlook what comes early until something follows.
func TestSIWToSIW(t *testing.T) {
	needKernels(t)
	l, guests := newSIWLab(t, guestAddr, otherGuest)
	a, b := l.siwVerbs(guests[0]), l.siwVerbs(guests[1])
	for _, client := range []verbs{a, b} {
		for _, size := range []int{64, 4096} {
			t.Run(fmt.Sprintf("rping/%v/%d", client.addr, size), func(t *testing.T) {
				testRping(t, client, a, rpingRun{count: 10, size: size})
			})
		}
	}
	for _, p := range perftests {
		t.Run(p.program, func(t *testing.T) { testPerftest(t, b, a, p) })
	}
	t.Run("messages", func(t *testing.T) { testVerbMessages(t, b, a) })
	t.Run("faults", func(t *testing.T) { testFaults(t, b, a) })
	t.Run("resets", func(t *testing.T) { testResets(t, b, a) })
}

// newSIWLab makes the network for guests with siw and boots some, their soft
// iWARP device on. Each is watched: a complaint of its kernel fails the test.
func newSIWLab(t *testing.T, addrs ...netip.Addr) (*lab, []*process) {
	t.Helper()
	l := newLabWith(t, len(addrs), func() string { return cmp.Or(missing(), missingSIW()) }, siwOnce)
	var guests []*process
	for i, addr := range addrs {
		guests = append(guests, l.startGuest(t, i, addr, ""))
	}
	for _, g := range guests {
		g.waitReady(t)
		g.env = siwEnv
		g.run(t, "rdma", "link", "add", "siw0", "type", "siw", "netdev", "eth0")
	}
	return l, guests
}

// complaint finds what Linux prints before a call trace.
var complaint = regexp.MustCompile(`(?m)^.*(?:BUG:|kernel BUG at|Oops|WARNING: CPU|Kernel panic|general protection fault|divide error|Call Trace|list_(?:add|del) corruption|refcount_t:).*$`)

// checkKernel fails the test if the guest's kernel complained on its console.
func (p *process) checkKernel(t *testing.T) {
	t.Helper()
	console, err := os.ReadFile(p.log)
	must(t, err)
	if at := complaint.FindIndex(console); at != nil {
		t.Errorf("the kernel of %s complains:\n%s", p.name, console[at[0]:min(len(console), at[0]+4<<10)])
	}
}

func TestComplaintsAreFound(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"[    3.1] siw: loading out-of-tree module taints kernel.":                              false,
		"[    4.2] siw: got TERMINATE. layer 1, type 1, code 0":                                 false,
		"[    4.3] siw: siw_rx_umem: [QP 1]: bogus addr: ffffffffffffff00, 000000007a9b884b":    false,
		"[    1.0] acpi PNP0A03:00: fail to add MMCONFIG information":                           false,
		"[    9.0] BUG: kernel NULL pointer dereference, address: 0000000000000008":             true,
		"[    9.0] kernel BUG at drivers/infiniband/core/iwcm.c:640!":                           true,
		"[    9.0] WARNING: CPU: 0 PID: 77 at drivers/infiniband/sw/siw/siw_cm.c:1 f+0x1/0x2":   true,
		"[    9.0] general protection fault, probably for non-canonical address 0x1: 0000 [#1]": true,
		"[    9.0] refcount_t: underflow; use-after-free.":                                      true,
		"[    9.0] Kernel panic - not syncing: Fatal exception":                                 true,
	} {
		if got := complaint.MatchString("\r\n" + line + "\r\n"); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// TestSIWPeerToPeer sets up peer-to-peer connections to siw. siw always wants a Write as the first
// message: an initiator that offers all kinds, as ours does, sends one. It has a guest of its own,
// because siw may take its kernel down if such a set-up ends between the Reply and the first message. So an
// initiator that offers the Send alone is not tried: it ends the set-up by a Terminate (docs/IWARP.md).
func TestSIWPeerToPeer(t *testing.T) {
	t.Parallel()
	l, guests := newSIWLab(t, guestAddr)
	ours, siw := l.ourVerbs(t, netip.MustParseAddr("10.77.1.1")), l.siwVerbs(guests[0])
	s := siw.serve(t, 2, regionSpec{"r", 64})
	for _, kind := range []string{"", "write"} {
		t.Run("rtr="+kind, func(t *testing.T) {
			argv := []string{ours.rdsverbs, "op", "-a", s.at.Addr().String(), "-p", s.port(), "--not-siw", "--peer-to-peer"}
			if kind != "" {
				argv = append(argv, "--rtr", kind)
			}
			// As many messages as there are receives: the set-up has taken none.
			argv = append(argv, s.regions[0].on("read", 0, 8).word(true), operation{op: "send", length: 4, count: 2}.word(true))
			p := ours.exec(t, argv...)
			r := p.wait(t)
			o := outcome{done: parseCompletions(r.Output)}
			if r.Status != 0 || o.of("read").status != statusSuccess || o.of("send").status != statusSuccess || !strings.Contains(r.Output, `"peer_to_peer":true`) {
				t.Errorf("status %d\n%s", r.Status, r.Output)
			}
		})
	}
}
