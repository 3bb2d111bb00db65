//go:build live

package rds

import (
	"context"
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func BenchmarkApplications(b *testing.B) {
	for _, n := range []int{64, 1024, 64 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLoopLab(b)
			_, _, p1 := served(b, l, Config{}, ServiceConfig{})
			_, _, p2 := served(b, l, Config{}, ServiceConfig{})
			x := bound(b, dialed(b, p1), rdstest.AddrOf(rdstest.NewAddr(), 100))
			y := bound(b, dialed(b, p2), rdstest.AddrOf(rdstest.NewAddr(), 200))
			ctx := context.Background()
			data := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			go func() {
				for range b.N {
					if err := x.Send(ctx, y.LocalAddrPort(), data); err != nil {
						b.Error(err)
						return
					}
				}
			}()
			for range b.N {
				m, err := y.Recv(ctx)
				rdstest.Must(b, err)
				m.Release()
			}
		})
	}
}

// served is a node that serves applications.
func served(t testing.TB, l *lab, cfg Config, scfg ServiceConfig) (*Node, *Service, string) {
	t.Helper()
	cfg.Serves = true
	n := l.node(cfg)
	svc, path := rdstest.Serve(t, NewService, n, scfg)
	return n, svc, path
}

func dialed(t testing.TB, path string) *Client { t.Helper(); return rdstest.Attach(t, Dial, path) }
