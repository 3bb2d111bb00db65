//go:build !live

package ebpf

import (
	"testing"
)

func BenchmarkTelemetryLoad(b *testing.B) {
	needRoot(b)
	b.ReportAllocs()
	for b.Loop() {
		tel, err := LoadTelemetry(TelemetryOptions{})
		must(b, err)
		tel.Close()
	}
}
