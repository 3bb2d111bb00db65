//go:build live

package client

import (
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Sockets of one application use several paths. Whoever moved their messages to
// the log wrote, or woke the writer of, one of these paths only: messages of the
// others lay there until something else was sent on their path. The Linux guest
// of test/interop stood still for minutes.
func TestEveryPathOfAnApplicationIsWritten(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		t.Run(fmt.Sprint(paths), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, _, path := served(t, l, config.Node{Paths: paths}, config.Service{})
			c := dialed(t, path)
			at := rdstest.NewAddr()
			n := l.node(config.Node{Paths: paths})
			far := rdstest.NewAddr()
			ctx := rdstest.Background(t)
			const pairs = 8
			var froms, tos []*socket.Socket
			for i := range pairs {
				froms = append(froms, bound(t, c, rdstest.AddrOf(at, uint16(1000+i))))
				tos = append(tos, l.bind(n, rdstest.AddrOf(far, uint16(1000+i))))
				rdstest.Ping(t, froms[i], far) // all paths are up
			}
			// A turn of the daemon takes messages of all sockets.
			done := make(chan error, pairs)
			for i := range pairs {
				go func() {
					done <- rdstest.Stream(ctx, froms[i], tos[i], 30, func(round int) int {
						if round%3 == 0 {
							return config.MaxMessage - i
						}
						return 100
					})
				}()
			}
			for range pairs {
				rdstest.NoError(t, <-done)
			}
			// And one message for each path, in one turn: the doorbell is rung
			// when all are there.
			for range 20 {
				u := &c.att.submission
				u.mu.Lock()
				for i := range pairs {
					h := clientHalfOf(froms[i]).half.Load()
					d := clientHalfOf(froms[i]).last.Load()
					if !h.account.Charge(8) {
						t.Error("no room")
					}
					o := datagram.Outgoing{Data: rdstest.Payload(7, 8)}
					rdstest.NoError(t, u.putLocked(&h.asked, h.entry(ipc.OpSend, d, uint16(1000+i), &o, 8, nil), nil, o.Data))
				}
				u.publishLocked()
				u.mu.Unlock()
				u.wake()
				for i := range pairs {
					rdstest.Drop(t, tos[i], 1)
				}
			}
		})
	}
}
