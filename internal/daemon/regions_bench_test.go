//go:build live

package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// BenchmarkRegions exposes pieces of 8 KiB and ends them lazily, in batches, on a node and
// through rdsd. One operation is one region. ns/free is what its end costs the caller.
func BenchmarkRegions(b *testing.B) {
	const size = 8 << 10
	for _, attached := range []bool{false, true} {
		for _, batch := range []int{1, 64} {
			b.Run(fmt.Sprintf("rdsd=%v/batch=%d", attached, batch), func(b *testing.B) {
				l := newLab(b)
				n := l.node(config.Node{Wire: config.WireXRC})
				var s *socket.Socket
				if s = l.bind(n); attached {
					_, path := serving(b, n, config.Service{})
					s = bound(b, dialed(b, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
				}
				mem := lent(b, s, batch*size)
				var pieces [][]byte
				for i := range batch {
					pieces = append(pieces, mem[i*size:][:size])
				}
				cookies := make([]datagram.Cookie, batch)
				var freeing time.Duration
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += batch {
					if n, err := s.GetMRBatch(cookies, pieces, 0); err != nil {
						b.Fatalf("%d of %d: %v", n, batch, err)
					}
					start := time.Now()
					if n, err := s.FreeMRBatch(cookies, 0); err != nil {
						b.Fatalf("%d of %d: %v", n, batch, err)
					}
					freeing += time.Since(start)
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "regions/s")
				b.ReportMetric(float64(freeing)/float64(b.N), "ns/free")
			})
		}
	}
}
