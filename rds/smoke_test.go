package rds

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func pair(t testing.TB, cfg Config, port uint16) (a, b *Socket) {
	t.Helper()
	cfg.Port = port
	na, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { na.Close() })
	nb, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nb.Close() })
	if a, err = na.Bind(netip.MustParseAddrPort("127.0.0.1:4000")); err != nil {
		t.Fatal(err)
	}
	if b, err = nb.Bind(netip.MustParseAddrPort("127.0.0.2:4000")); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestSmoke(t *testing.T) {
	for _, paths := range []int{1, 8} {
		a, b := pair(t, Config{Paths: paths}, uint16(21000+paths))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for i, s := range []*Socket{a, b} {
			d := []*Socket{b, a}[i]
			sizes := []int{0, 1, 64, 5000, 20000, 100000, 1 << 20}
			go func() {
				for n := range 2000 {
					buf := make([]byte, max(8, sizes[n%len(sizes)]/(1+n/100)))
					binary.BigEndian.PutUint64(buf, uint64(n))
					if err := s.Send(ctx, d.LocalAddrPort(), buf); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			for n := range 2000 {
				m, err := d.Recv(ctx)
				if err != nil {
					t.Fatalf("paths %d dir %d message %d: %v", paths, i, n, err)
				}
				if got := binary.BigEndian.Uint64(m.Data); got != uint64(n) {
					t.Fatalf("message %d is %d", n, got)
				}
				m.Release()
			}
		}
	}
}

func BenchmarkOneWay64(b *testing.B) {
	x, y := pair(b, Config{}, 21010)
	done := make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		ms := make([]Message, 256)
		for {
			k, err := y.RecvBatch(context.Background(), ms)
			if err != nil {
				return
			}
			for i := range ms[:k] {
				ms[i].Release()
			}
			n += k
			if n >= b.N+1 {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	to := y.LocalAddrPort()
	x.WriteToAddrPort(buf, to)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := x.WriteToAddrPort(buf, to); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}
