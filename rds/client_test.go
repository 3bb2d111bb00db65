//go:build live

package rds

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Two applications at two daemons exchange messages of all sizes.
func TestApplicationsExchange(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, _, p1 := served(t, l, Config{}, ServiceConfig{})
	_, _, p2 := served(t, l, Config{}, ServiceConfig{})
	a := bound(t, dialed(t, p1), rdstest.AddrOf(rdstest.NewAddr(), 100))
	b := bound(t, dialed(t, p2), rdstest.AddrOf(rdstest.NewAddr(), 200))
	ctx := rdstest.Background(t)
	sizes := []int{0, 1, 64, 1000, 8 << 10, 16 << 10, 17 << 10, 64 << 10, 300000, MaxMessage}
	go func() {
		for round := range 20 {
			for i, n := range sizes {
				if err := a.Send(ctx, b.LocalAddrPort(), bytes.Repeat([]byte{byte(round + i)}, n)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for round := range 20 {
		for i, n := range sizes {
			m, err := b.Recv(ctx)
			rdstest.Must(t, err)
			if len(m.Data) != n || m.From != a.LocalAddrPort() || n > 0 && (m.Data[0] != byte(round+i) || m.Data[n-1] != byte(round+i)) {
				t.Fatalf("round %d message %d: %v, want %d bytes", round, i, &m, n)
			}
			m.Release()
		}
	}
}

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
