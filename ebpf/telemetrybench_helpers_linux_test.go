package ebpf

import (
	"os"
	"testing"
)

// needRoot skips a benchmark that is not run by root.
func needRoot(b *testing.B) {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("needs root, to load programs into the kernel")
	}
}
