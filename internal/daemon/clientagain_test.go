//go:build !live

package daemon

import (
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// What a daemon that stops does not take is submitted to the next one, in order and in
// front of what is sent later; not by an application that does not attach again.
func TestLeftSubmissionsGoToTheNextDaemon(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d, s, far := newAttached(t, l, true)
		stays := bound(t, d.client(false), rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.MustSend(t, s, far.LocalAddrPort(), rdstest.Payload(0, 10))
		rdstest.Drop(t, far, 1)

		sizes := []int{0, 10, conn.InlineMax, conn.InlineMax + 1, 300_000, 10}
		for range 3 { // daemons
			d.leave()
			for i, n := range sizes {
				out := &datagram.Outgoing{To: far.LocalAddrPort(), Data: rdstest.Payload(uint64(i), n), Notify: true, Token: uint64(i)}
				rdstest.Must(t, s.SendMessage(rdstest.Background(t), out))
			}
			if rdstest.Holds(20*time.Millisecond, func() bool { return halfOf(far).Queue.Count.Load() > 0 }) {
				t.Fatal("a daemon that has left takes submissions")
			}
			d.stop()
			_, err := s.Recv(rdstest.Background(t))
			rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
			d.start()
			rdstest.MustSend(t, s, far.LocalAddrPort(), rdstest.Payload(uint64(len(sizes)), 10))
			rdstest.ExpectNumbers(t, far, len(sizes)+1)
			for i := range sizes {
				m := rdstest.MustRecv(t, s)
				if m.Kind != datagram.KindStatus || m.Status != datagram.StatusSuccess || m.Token != uint64(i) {
					t.Errorf("fate %d: %v", i, &m)
				}
			}
		}
		rdstest.WantErr(t, "Send", stays.Send(rdstest.Background(t), far.LocalAddrPort(), nil), datagram.ErrDaemonLost)
	})
}

// What a daemon that is killed has not touched is submitted to the next one, and what it
// may have sent is not: that ends with StatusDropped, as all does of an application that
// does not attach again.
func TestKilledDaemonsSubmissions(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		for _, again := range []bool{true, false} {
			d, s, far := newAttached(t, l, again)
			send := func(token uint64, size int) {
				o := datagram.Outgoing{To: far.LocalAddrPort(), Data: rdstest.Payload(token, size), Notify: true, Token: token}
				rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
			}
			x := d.svc.all()[0]
			x.mu.Lock()
			x.left = true // It takes nothing more.
			x.mu.Unlock()
			for i, size := range []int{10, 100_000, 10, 100_000, 10} {
				send(uint64(i%3), size) // tokens need not differ
			}
			x.mu.Lock()
			x.ended = true                            // the session ends as that of a killed daemon does
			x.seg.Taking().Store(x.sq.Head() + 1 + 2) // while it sends the first two
			x.mu.Unlock()
			d.stop()
			told := map[uint64]int{}
			tell := func(n int, want datagram.Status) {
				t.Helper()
				for range n {
					m := rdstest.MustRecv(t, s)
					if m.Kind != datagram.KindStatus || m.Status != want {
						t.Errorf("%v, want the fate %v", &m, want)
					}
					told[m.Token]++
				}
			}
			if !again {
				tell(5, datagram.StatusDropped)
				continue
			}
			tell(2, datagram.StatusDropped)
			if told[0] != 1 || told[1] != 1 {
				t.Errorf("dropped: %v", told)
			}
			_, err := s.Recv(rdstest.Background(t))
			rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
			d.start()
			rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("later"))
			for _, token := range []uint64{2, 0, 1} {
				rdstest.ExpectNumber(t, far, token)
			}
			rdstest.Expect(t, far, "later")
			tell(3, datagram.StatusSuccess)
		}
	})
}
