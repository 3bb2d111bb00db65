//go:build interop

package interop

import (
	"os"
	"testing"
)

// TestOtherKernels runs the cases with RDS on each version of Linux that is installed besides
// the one that all tests run on. The cases with siw are not among them: each kernel would need
// its own source and headers, to build the driver from.
func TestOtherKernels(t *testing.T) {
	if what := missing(); what != "" {
		t.Skip("interop: needs " + what)
	}
	if name := os.Getenv("RDS_INTEROP_KERNEL"); name != "" {
		t.Skip("interop: RDS_INTEROP_KERNEL names the only kernel to test: " + name)
	}
	kernels, err := findKernels()
	if err != nil {
		t.Fatal(err)
	}
	if len(kernels) == 1 {
		t.Skipf("interop: Linux %s is the only kernel in /boot that has RDS over TCP; a second one is tested too (Debian 12: linux-image-6.12-amd64)", kernels[0].version())
	}
	for _, k := range kernels[1:] {
		t.Run(k.version(), func(t *testing.T) {
			t.Log("kernel", k.release())
			labOf := func(t *testing.T, taps int) *lab {
				return newLabWith(t, taps, k.missingTool, func() (built, error) { return buildGuest(k) })
			}
			t.Run("interop", func(t *testing.T) { testInterop(t, labOf(t, 1)) })
			t.Run("provider", func(t *testing.T) { testKernelProvider(t, labOf(t, 2)) })
			t.Run("ebpf", func(t *testing.T) { testEBPF(t, labOf(t, 1)) })
		})
	}
}
