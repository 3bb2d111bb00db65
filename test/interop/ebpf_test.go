//go:build interop

package interop

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
)

// ebpfProbe is the program ebpfprobe in a guest.
const ebpfProbe = "/ebpfprobe"

// TestEBPF asks the guest's kernel what it has for package ebpf.
func TestEBPF(t *testing.T) {
	t.Parallel()
	testEBPF(t, newLab(t, 1))
}

// testEBPF asks the guest's kernel what it has for package ebpf: the answer is the one that is
// committed for the kernel's version, feature by feature, and nobody is shown a verifier's log.
// Then telemetry there shows the connections of the kernel's own RDS.
func testEBPF(t *testing.T, l *lab) {
	guest := l.boot(t, 0, guestAddr)
	t.Run("features", func(t *testing.T) {
		file := "testdata/ebpf-" + l.kernel.version() + ".txt"
		want, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("interop: no %s: nobody has written down what Linux %s has", file, l.kernel.version())
		}
		must(t, err)
		got := guest.run(t, ebpfProbe)
		if got != string(want) {
			t.Errorf("%s says other than the guest:\n%s", file, got)
		}
		reasons := regexp.MustCompile(`: (yes|not supported by this kernel\b.*)$`)
		for line := range strings.Lines(got) {
			if !reasons.MatchString(strings.TrimSpace(line)) {
				t.Errorf("neither there nor not supported: %s", line)
			}
		}
	})
	t.Run("the kernel's own connections", func(t *testing.T) {
		addr := netip.MustParseAddr("10.77.9.1")
		l.addAddr(t, addr)
		node := l.startNode(t, addr, 1)
		testPing(t, node, guest)
		out := guest.run(t, ebpfProbe, "connections")
		expr := fmt.Sprintf(`(?m)^(%v:\d+ %v:16385|%v:16385 %v:\d+) established `, guest.addr, addr, guest.addr, addr)
		if !regexp.MustCompile(expr).MatchString(out) {
			t.Errorf("no connection of the kernel's RDS with %v:\n%s", addr, out)
		}
	})
}
