//go:build interop

package interop

import (
	"fmt"
	"testing"
)

// TestSIWToSIW runs cases on a guest alone and between two: what fails here is
// the harness's fault or the kernel's. What siw answers to faults is the
// reference for what we do.
func TestSIWToSIW(t *testing.T) {
	l, guests := newSIWLab(t, guestAddr, otherGuest)
	a, b := siwVerbs(guests[0]), siwVerbs(guests[1])
	for _, client := range []verbs{a, b} {
		for _, size := range []int{64, 4096} {
			t.Run(fmt.Sprintf("rping/%v/%d", client.addr, size), func(t *testing.T) {
				testRping(t, client, a, rpingRun{count: 10, size: size})
			})
		}
	}
	for _, p := range []perftest{
		{"ib_send_bw", 4096, 100}, {"ib_write_bw", 65536, 100}, {"ib_read_bw", 65536, 100}, {"ib_read_lat", 8, 100}, {"ib_write_lat", 8, 100},
	} {
		t.Run(p.program, func(t *testing.T) { testPerftest(t, b, a, p) })
	}
	t.Run("faults", func(t *testing.T) { testFaults(t, b, a) })
	t.Run("resets", func(t *testing.T) { testResets(t, l, b, a) })
}
