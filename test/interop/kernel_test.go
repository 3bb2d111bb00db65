//go:build interop

package interop

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/conformance"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
)

// TestKernelToKernel runs cases between two guests: what fails here is the
// harness's fault or the kernel's, not ours. It runs on demand, to judge the
// harness: two Linux 6.1 kernels with eight paths lose maps that take another
// path than what they are about, and messages after a reboot.
func TestKernelToKernel(t *testing.T) {
	needKernels(t)
	l := newLab(t, 2)
	a := l.startGuest(t, 0, guestAddr, "")
	b := l.boot(t, 1, otherGuest)
	a.waitReady(t)
	t.Run("ping", func(t *testing.T) { testPing(t, a, b) })
	t.Run("messages", func(t *testing.T) { testMessages(t, a, b, 8) })
	t.Run("kills", func(t *testing.T) { testKills(t, a, b, 8) })
	t.Run("congestion", func(t *testing.T) { testCongestion(t, a, b) })
	t.Run("reboot", func(t *testing.T) {
		testRestart(t, b, a, 8, func() *process {
			a.stop()
			a = l.boot(t, 0, guestAddr)
			return a
		})
	})
	t.Run("messages after it", func(t *testing.T) { testMessages(t, a, b, 8) })
}

// TestKernelProvider runs cases between a guest whose program uses this
// project's kernel provider and one with bare system calls.
func TestKernelProvider(t *testing.T) {
	t.Parallel()
	testKernelProvider(t, newLab(t, 2))
}

func testKernelProvider(t *testing.T, l *lab) {
	a := l.startGuest(t, 0, guestAddr, "provider")
	b := l.boot(t, 1, otherGuest)
	a.waitReady(t)
	t.Run("ping", func(t *testing.T) { testPing(t, a, b) })
	t.Run("messages", func(t *testing.T) { testMessages(t, a, b, 8) })
	t.Run("congestion", func(t *testing.T) {
		needKernels(t)
		testCongestion(t, a, b)
	})
	t.Run("afrds", func(t *testing.T) { testSelf(t, b) })
	t.Run("conformance", func(t *testing.T) { testConformance(t, b) })
}

// testSelf runs the tests of internal/afrds on the guest's kernel; here they
// must find RDS.
func testSelf(t *testing.T, guest *process) {
	out := runTests(t, guest, peer.TestAFRDS)
	if strings.Contains(out, "--- SKIP: TestKernel") || !strings.Contains(out, "--- PASS: TestKernel") {
		t.Fatalf("skipped what needs RDS, or ran none:\n%s", out)
	}
}

// testConformance runs the conformance suite on the guest's kernel: each case
// passes, or is one that the table says the kernel does not have.
func testConformance(t *testing.T, guest *process) {
	out := runTests(t, guest, peer.TestConformance,
		fmt.Sprintf("RDS_CONFORMANCE_ADDRS=%v,%v,%v", guest.addr, peer.SecondAddr(guest.addr), nobodyAddr))
	skip := make(map[string]bool)
	for _, d := range conformance.Differences() {
		if d.Provider == rds.ProviderKernel && d.Skip {
			skip[d.Case] = true
		}
	}
	passed := 0
	for _, name := range conformance.Names() {
		want := "--- PASS: "
		if skip[name] {
			want = "--- SKIP: "
		} else {
			passed++
		}
		if want += "TestKernel/" + strings.ReplaceAll(name, " ", "_") + " ("; !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	t.Logf("%d cases passed, %d skipped", passed, len(skip))
}

// testsTime is how long a test program may run before it ends itself with the
// stacks of its goroutines.
const testsTime = runTime - 30*time.Second

// runTests runs a test program in a guest and returns its output, which the
// log has if it failed.
func runTests(t *testing.T, guest *process, program string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), runTime, fmt.Errorf("still running after %v", runTime))
	defer cancel()
	g := guest.execWith(t, env, program, "-test.v", fmt.Sprintf("-test.timeout=%v", testsTime))
	r, err := g.result(ctx)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", program, err)
	case r.Status != 0:
		t.Fatalf("%s: %s", program, r.State)
	case testing.Verbose():
		t.Logf("%s in the guest:\n%s", program, r.Output)
	}
	return r.Output
}

// needKernels skips what two kernels do not manage reliably between them.
func needKernels(t *testing.T) {
	t.Helper()
	if os.Getenv("RDS_INTEROP_KERNELS") == "" {
		t.Skip("Linux against Linux fails now and then by itself: RDS_INTEROP_KERNELS=1 runs it")
	}
}
