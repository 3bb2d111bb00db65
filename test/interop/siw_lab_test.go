//go:build interop

package interop

import (
	"cmp"
	"net/netip"
	"os"
	"regexp"
	"testing"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
