package buf

import (
	"fmt"
	"testing"
)

func BenchmarkGetRelease(b *testing.B) {
	for _, n := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var p Pool
			b.ReportAllocs()
			for b.Loop() {
				p.Get(n).Release()
			}
		})
	}
}

// BenchmarkGetReleaseParallel has all goroutines in one class.
func BenchmarkGetReleaseParallel(b *testing.B) {
	var p Pool
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.Get(1 << 10).Release()
		}
	})
}

// BenchmarkMake is what a buffer costs without a pool.
func BenchmarkMake(b *testing.B) {
	for _, n := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = make([]byte, n)
			}
		})
	}
}

var sink []byte
