//go:build !live

package rds

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func BenchmarkBind(b *testing.B) {
	l := newLoopLab(b)
	n := l.node(Config{})
	b.ReportAllocs()
	at := rdstest.NewAddr()
	for i := 0; b.Loop(); i++ {
		if i%60_000 == 0 {
			at = rdstest.NewAddr()
		}
		l.bind(n, netip.AddrPortFrom(at, 0))
	}
}
