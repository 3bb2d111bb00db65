//go:build live

package xrc

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// A process is killed while messages go to it and to another process of its domain through one target. It reports the
// 99th percentile of the other's round trips, a message and its completion: before the kill, in the rounds that follow
// the kill, and after those. Run it by -bench KillOfANeighbour -benchtime 1x -count 5.
func BenchmarkKillOfANeighbour(b *testing.B) {
	const rounds, during = 5_000, 1_000
	for range b.N {
		b.StopTimer()
		h := newSharedTarget(b)
		h.toB.tag = 1 << 63
		refused := 0
		// p99 is that of n rounds in µs. In each, the process that is killed has a message under way, too.
		p99 := func(n int) float64 {
			took := make([]time.Duration, n)
			for k := range took {
				must(b, h.toA.send())
				began := time.Now()
				must(b, h.toB.send())
				for range 2 {
					switch c := h.p.poll(b); {
					case c.ID&h.toB.tag != 0 && c.Status == iwarp.Success:
						took[k] = time.Since(began)
					case c.ID&h.toB.tag == 0 && c.Status == iwarp.RemoteInvalidRD:
						refused++
					case c.Status != iwarp.Success:
						b.Fatalf("%+v", c)
					}
				}
			}
			slices.Sort(took)
			return float64(took[n*99/100].Nanoseconds()) / 1e3
		}
		p99(during) // not measured: buffers grow
		b.StartTimer()
		before := p99(rounds)
		must(b, h.a.cmd.Process.Kill()) // and the rounds do not wait for it to be dead
		atKill := p99(during)
		rdstest.Eventually(b, "the end of the process to be known", func() bool { return h.send(&h.toA) == iwarp.RemoteInvalidRD })
		after := p99(rounds)
		if refused == 0 {
			b.Error("nothing was sent to the process that was killed")
		}
		b.ReportMetric(before, "p99-before-µs")
		b.ReportMetric(atKill, "p99-during-µs")
		b.ReportMetric(after, "p99-after-µs")
	}
}
