//go:build live

package conformance

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/rds"
)

// envAddrs names the addresses of the machine that TestKernel uses, and after
// them one that does not answer, separated by commas.
const envAddrs = "RDS_CONFORMANCE_ADDRS"

// TestKernel is the suite on the kernel's sockets. test/interop runs it in a
// virtual machine.
func TestKernel(t *testing.T) {
	k, err := rds.OpenKernel()
	if errors.Is(err, rds.ErrNoKernel) {
		t.Skip("needs RDS in the kernel; test/interop runs it in a guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	var addrs []netip.Addr
	for a := range strings.SplitSeq(os.Getenv(envAddrs), ",") {
		x, err := netip.ParseAddr(a)
		if err != nil {
			t.Skipf("needs three addresses of this machine in %s: %v", envAddrs, err)
		}
		addrs = append(addrs, x)
	}
	if len(addrs) != 3 {
		t.Fatalf("%s has %d addresses, want 3", envAddrs, len(addrs))
	}
	// One address for both ends: between two addresses of its own Linux 6.1
	// marks congestion in the map of the wrong one.
	Run(t, rds.ProviderKernel, func(*testing.T) Setup {
		return Setup{Near: k, Far: k, OneHost: true, NearAddr: addrs[0], FarAddr: addrs[0], Other: addrs[1], Nowhere: addrs[2], Foreign: netip.MustParseAddr("192.0.2.1"), Slow: true}
	})
}

// The table names cases that exist, each once for a provider.
func TestDifferencesAreAboutCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, d := range Differences() {
		if !slices.Contains(Names(), d.Case) {
			t.Errorf("no case %q", d.Case)
		}
		if key := d.Case + " " + d.Provider; seen[key] {
			t.Errorf("%s twice", key)
		} else {
			seen[key] = true
		}
		if d.What == "" {
			t.Errorf("%s: no words", d.Case)
		}
	}
}

// Cases have names of their own.
func TestNamesDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for _, n := range Names() {
		if seen[n] {
			t.Errorf("two cases %q", n)
		}
		seen[n] = true
	}
}
