//go:build live

package rds

import (
	"context"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Through rdsd the data path allocates nothing per message either: what is
// counted is both applications and both daemons together, all in this process.
func TestApplicationsAllocateNothing(t *testing.T) {
	skipUnlessExact(t)
	for name, l := range map[string]*lab{"tcp": newLab(t), "loop": newLoopLab(t)} {
		_, _, p1 := served(t, l, Config{}, ServiceConfig{})
		_, _, p2 := served(t, l, Config{}, ServiceConfig{})
		c1, c2 := dialed(t, p1), dialed(t, p2)
		a, b := bound(t, c1, rdstest.AddrOf(rdstest.NewAddr(), 100)), bound(t, c2, rdstest.AddrOf(rdstest.NewAddr(), 100))
		ctx := context.Background()
		to, back := b.LocalAddrPort(), a.LocalAddrPort()
		check := func(err error) {
			rdstest.Must(t, err)
		}
		for _, size := range []int{0, 64, 1 << 10, 8 << 10, 16 << 10, 16<<10 + 1, 64 << 10, 256 << 10} {
			data := make([]byte, size)
			room := make([]byte, size)
			for _, c := range []struct {
				name string
				call func()
			}{
				{"Send, Recv", func() {
					check(a.Send(ctx, to, data))
					m, err := b.Recv(ctx)
					check(err)
					m.Release()
				}},
				{"there and back", func() {
					_, err := a.WriteToAddrPort(data, to)
					check(err)
					_, _, err = b.ReadFromAddrPort(room)
					check(err)
					_, err = b.WriteToAddrPort(data, back)
					check(err)
					_, _, err = a.ReadFromAddrPort(room)
					check(err)
				}},
			} {
				if n := allocations(size, c.call); n >= 1 {
					t.Errorf("%s, %d bytes, %s: %v allocations per message", name, size, c.name, n)
				}
			}
		}
	}
}
