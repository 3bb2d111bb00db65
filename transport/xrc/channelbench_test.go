//go:build !live

package xrc

import (
	"testing"
)

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 64 << 10} {
		name := map[int]string{64: "64B", 64 << 10: "64KiB"}[size]
		b.Run(name, func(b *testing.B) {
			x := newBench(b, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			x.run(b, b.N, 256)
		})
	}
}
