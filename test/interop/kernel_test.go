//go:build interop

package interop

import "testing"

// TestKernelToKernel runs cases between two guests: what fails here is the
// harness's fault or the kernel's, not ours.
func TestKernelToKernel(t *testing.T) {
	l := newLab(t, 2)
	a := l.startGuest(t, 0, guestAddr)
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
