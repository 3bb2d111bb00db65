//go:build !live

package client

import (
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// Eight sockets with 4 MiB each for a host that is down use up an application's budget:
// messages to others, and of other sockets, go on, large ones and small ones. Nothing that
// was taken is left on the ring.
func TestADeadHostLeavesHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1000, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lab) {
				_, svc, path := served(t, l, config.Node{SendBuffer: 8 << 20}, config.Service{})
				c := dialed(t, path)
				up := l.bindOne(config.Node{})
				dead := rdstest.Nowhere()
				host, total := rdstest.NewAddr(), 0
				var full []*socket.Socket
				for i := range 8 {
					s := bound(t, c, rdstest.AddrOf(host, 100+uint16(i)))
					s.SetLinger(0)
					full = append(full, s)
					n := stuffed(t, s, dead, size)
					if n > 4<<20+size {
						t.Errorf("%d bytes of socket %d for a dead host", n, i)
					}
					total += n
				}
				if total < config.DefaultSendBudget/4 || total > config.DefaultSendBudget/2+size {
					t.Errorf("%d bytes for a dead host", total)
				}
				live := bound(t, c, rdstest.AddrOf(host, 200))
				for _, n := range []int{0, 1000, 64 << 10, 1 << 20} {
					for _, s := range append(full, live) { // a full socket is full for the dead host alone
						rdstest.Promptly(t, s, up, make([]byte, n))
					}
				}
				for i := range 8 { // sockets of the same program fill up towards other dead hosts, too
					s := bound(t, c, rdstest.AddrOf(host, 300+uint16(i)))
					s.SetLinger(0)
					stuffed(t, s, rdstest.Nowhere(), size)
				}
				for range 20 {
					rdstest.Promptly(t, live, up, make([]byte, 64<<10))
				}
				if q, most := svc.Sessions()[0].SendQueued, config.DefaultSendBudget*3/2; q > most {
					t.Errorf("%d bytes queued of %d", q, most)
				}
				rdstest.Eventually(t, "all submissions to be taken", func() bool { return allTaken(c.att) })
			})
		})
	}
}

// The rule: see conn.HasRoomFor.
func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, held, own int64
		down, want      bool
	}{
		{99, 0, 99, false, true}, {100, 0, 100, false, false}, // Linux
		{100, 50, 0, false, false}, {99, 50, 0, false, true}, {100, 100, 0, false, true}, {149, 100, 0, false, true}, {150, 100, 0, false, false},
		{149, 140, 0, false, true}, {150, 140, 0, false, false}, {149, 149, 0, false, true}, {151, 150, 0, false, false}, {200, 200, 0, false, true}, // held beyond the limit
		{0, 0, 0, true, true}, {49, 49, 49, true, true}, {50, 50, 50, true, false}, {74, 74, 24, true, true}, {75, 75, 25, true, false},
		{99, 99, 0, true, true}, {100, 100, 0, true, false},
	} {
		if got := conn.HasRoomFor(100, c.used, c.held, c.own, c.down); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
