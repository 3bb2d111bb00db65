//go:build !live

package node

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

func TestCongestedSendEnds(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		a, b := l.pair(config.Node{})
		rdstest.Must(t, b.SetReadBuffer(1000))
		rdstest.Flood(t, a, b, 500)
		to := b.LocalAddrPort()
		waits := func() bool { return waitersOf(a) > 0 }

		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan error, 1)
		go func() { got <- a.Send(ctx, to, nil) }()
		rdstest.Eventually(t, "the sender waits", waits)
		cancel()
		rdstest.WantErr(t, "cancel", <-got, context.Canceled)

		_ = a.SetWriteDeadline(time.Now().Add(time.Hour))
		go func() { got <- a.Send(context.Background(), to, nil) }()
		rdstest.Eventually(t, "the sender waits", waits)
		_ = a.SetWriteDeadline(time.Unix(1, 0)) // moved while it is blocked
		err := <-got
		var oe *datagram.OpError
		if !errors.As(err, &oe) || !oe.Timeout() {
			t.Errorf("deadline: %v", err)
		}
		_ = a.SetWriteDeadline(time.Time{})

		other := l.bind(nodeOf(a), rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
		go func() { got <- other.Send(context.Background(), to, nil) }()
		rdstest.Eventually(t, "the sender waits", waits)
		_ = other.Close()
		if err := <-got; !rdstest.Closed(err) {
			t.Errorf("close: %v", err)
		}

		go func() { got <- a.Send(context.Background(), to, []byte("x")) }()
		rdstest.Eventually(t, "the sender waits", waits)
		_ = b.Close() // uncongests the port; the message is dropped without a word
		if err := <-got; err != nil {
			t.Errorf("receiver gone: %v", err)
		}

		c := l.bind(nodeOf(b), rdstest.AddrOf(to.Addr(), 4001))
		rdstest.Must(t, c.SetReadBuffer(1000))
		rdstest.Flood(t, a, c, 500)
		go func() { got <- a.Send(context.Background(), c.LocalAddrPort(), nil) }()
		rdstest.Eventually(t, "the sender waits", waits)
		_ = nodeOf(a).Close()
		if err := <-got; !rdstest.Closed(err) {
			t.Errorf("node close: %v", err)
		}
	})
}

func waitersOf(s *socket.Socket) (n int32) {
	nodeOf(s).EachPeer(func(p *Peer) { n += p.waiters.N.Load() })
	return n
}
