//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestSIW runs our iWARP against Linux's.
func TestSIW(t *testing.T) {
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
