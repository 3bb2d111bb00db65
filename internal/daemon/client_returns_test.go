//go:build !live

package daemon

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// An application whose sends to one peer are stuck, up to its budget and its
// ring, goes on receiving from others: the memory it returns is taken all the
// same.
func TestStuckSendsDoNotStopReceiving(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, svc, path := served(t, l, config.Node{}, config.Service{ReceiveArena: 1 << 20})
		c := dialed(t, path)
		shrink(budget(lastSession(svc), 1<<20), 1<<20)
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(l.node(config.Node{}))
		ctx := rdstest.Background(t)
		nobody := netip.AddrPortFrom(rdstest.NewAddr(), 9)
		for { // until the ring is full
			if err := a.TrySend(nobody, make([]byte, 100)); err != nil {
				rdstest.WantErr(t, "stuck", err, datagram.ErrWouldBlock)
				if info, _ := n.Info(); info.Sessions[0].SendQueued >= 1<<20 {
					break
				}
			}
		}
		const count, size = 400, 64 << 10 // 25 times the arena
		go func() {
			for range count {
				if err := b.Send(ctx, a.LocalAddrPort(), make([]byte, size)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for i := range count {
			m, err := a.Recv(ctx)
			if err != nil || len(m.Data) != size {
				t.Fatalf("message %d: %v, %v", i, &m, err)
			}
			m.Release()
		}
	})
}

// Memory that is returned when the ring is full is given back when the daemon has taken
// what is there, even if the application then only receives.
func TestReturnsThatFoundTheRingFull(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{})
		a := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(l.node(config.Node{}))
		const count, size = ringEntries / 4, socket.SlabInline + 1 // each in a block of its own; more than messages leave room for
		rdstest.Must(t, a.SetReadBuffer(2*count*size))
		var got []datagram.Message
		for range count {
			rdstest.MustSend(t, b, a.LocalAddrPort(), make([]byte, size))
			got = append(got, rdstest.MustRecv(t, a))
		}
		rdstest.MustSend(t, a, b.LocalAddrPort(), nil) // which finds the connection
		x := lastSession(svc)
		release := rdstest.Hold(&x.mu) // takes nothing
		for err := error(nil); err == nil; {
			if err = a.TrySend(b.LocalAddrPort(), nil); err != nil {
				rdstest.WantErr(t, "full", err, datagram.ErrWouldBlock)
			}
		}
		for i := range got {
			got[i].Release()
		}
		if n, err := x.sq.Refresh(); n < ringEntries || err != nil {
			t.Errorf("all returns found room: %d entries, %v", n, err)
		}
		release()
		x.poke()
		rdstest.Eventually(t, "the memory", func() bool { return x.mem.used() == 0 })
	})
}
