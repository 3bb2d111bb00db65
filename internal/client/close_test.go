//go:build !live

package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// filled sends messages to nobody until the send buffer is full.
func filled(t testing.TB, s *socket.Socket, size int) (n int) {
	t.Helper()
	data := make([]byte, size)
	for {
		err := s.TrySend(rdstest.Nowhere(), data)
		if errors.Is(err, datagram.ErrWouldBlock) {
			return n
		}
		rdstest.Must(t, err)
		n++
	}
}

// A socket that lingers was still settled in its cell of the shared memory when
// that was the next socket's, whose send buffer then counted both's messages.
func TestLingeringSocketLeavesItsCell(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, _, path := served(t, l, config.Node{}, config.Service{})
		c := dialed(t, path)
		first := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		for range 50 {
			rdstest.MustSend(t, first, rdstest.Nowhere(), make([]byte, 1000))
		}
		first.SetLinger(50 * time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- first.Close() }()
		var next *socket.Socket // it may get the cell of the one that lingers
		rdstest.Eventually(t, "the port is free", func() bool {
			var err error
			next, err = c.Bind(first.LocalAddrPort())
			return err == nil
		})
		rdstest.Must(t, next.SetWriteBuffer(10_000))
		filled(t, next, 1000)
		var d *datagram.DroppedError
		if err := <-done; !errors.As(err, &d) || d.Messages != 50 {
			t.Errorf("Close: %v", err)
		}
		rdstest.WantErr(t, "TrySend to a full buffer", next.TrySend(rdstest.Nowhere(), nil), datagram.ErrWouldBlock)
		rdstest.Must(t, next.CancelSentTo(rdstest.AddrOf(noAddr, 0)))
		h := clientHalfOf(next).half.Load()
		if h.hasRoom(); h.account.Bytes() != 0 || h.account.Messages() != 0 {
			t.Errorf("%d messages, %d bytes in an empty buffer", h.account.Messages(), h.account.Bytes())
		}
	})
}

// careless has a Client not keep to its budget, as hostile ones do.
func careless(c *Client) { c.att.budget.account.SetLimit(0) }

// What waits on the ring because its session is over its budget was accepted: a
// close reports it, a cancel cancels it.
func TestMessagesOverBudgetAreAccountedFor(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{SendBudget: 64 << 10})
		c := dialed(t, path)
		careless(c)
		to := rdstest.Nowhere()
		const count, size = 300, 1000
		for _, linger := range []time.Duration{0, 30 * time.Millisecond} {
			s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
			for range count {
				rdstest.MustSend(t, s, to, make([]byte, size))
			}
			s.SetLinger(linger)
			err := s.Close()
			var d *datagram.DroppedError
			if !errors.As(err, &d) || d.Messages != count || d.Bytes != count*size {
				t.Errorf("linger %v: %v", linger, err)
			}
		}
		s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		for i := range count {
			rdstest.Must(t, s.SendMessage(context.Background(), &datagram.Outgoing{To: to, Data: make([]byte, size), Notify: true, Token: uint64(i)}))
		}
		rdstest.Must(t, s.CancelSentTo(to))
		for i := range count {
			if m := rdstest.MustRecv(t, s); m.Kind != datagram.KindStatus || m.Status != datagram.StatusCanceled || m.Token != uint64(i) {
				t.Fatalf("%v, want the cancel of %d", &m, i)
			}
		}
		rdstest.Eventually(t, "all is settled", func() bool { return svc.Sessions()[0].SendQueued == 0 })
	})
}
