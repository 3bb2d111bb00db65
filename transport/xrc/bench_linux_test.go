//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func BenchmarkThroughput(b *testing.B) { transporttest.Throughput(b, newBenchEnv) }

func BenchmarkAcked(b *testing.B) {
	p := transporttest.NewPump(b, newBenchEnv(b), 64, 1)
	p.Write(b)
	b.ReportAllocs()
	for b.Loop() {
		p.From.Acked()
	}
}

func BenchmarkPingPong(b *testing.B) { transporttest.PingPong(b, newBenchEnv) }
