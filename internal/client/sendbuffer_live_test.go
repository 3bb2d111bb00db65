//go:build live

package client

import (
	"context"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

func TestSendBlocksUntil(t *testing.T) {
	t.Parallel()
	full := func(t *testing.T) (*socket.Socket, netip.AddrPort) {
		s := newLoopLab(t).bindOne(config.Node{SendBuffer: 10})
		to := rdstest.Nowhere()
		rdstest.MustSend(t, s, to, make([]byte, 10))
		return s, to
	}
	waits := func(t *testing.T, s *socket.Socket) {
		rdstest.Eventually(t, "the sender waits", func() bool { return halfOf(s).Writers.N.Load() > 0 })
	}
	t.Run("its context is canceled", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *lab) {
			s, to := full(t)
			ctx, cancel := context.WithCancel(context.Background())
			got := make(chan error)
			go func() { got <- s.Send(ctx, to, []byte("x")) }()
			waits(t, s)
			cancel()
			rdstest.WantErr(t, "Send", <-got, context.Canceled)
		})
	})
	t.Run("its context was canceled before", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *lab) {
			s, to := full(t)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			rdstest.WantErr(t, "Send", s.Send(ctx, to, []byte("x")), context.Canceled)
		})
	})
	t.Run("the socket is closed", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *lab) {
			s, to := full(t)
			got := make(chan error)
			for range 5 {
				go func() { got <- s.Send(context.Background(), to, []byte("x")) }()
			}
			rdstest.Eventually(t, "all wait", func() bool { return halfOf(s).Writers.N.Load() == 5 })
			go func() { _ = s.Close() }()
			for range 5 {
				if err := <-got; !rdstest.Closed(err) {
					t.Error(err)
				}
			}
		})
	})
	t.Run("the node is closed", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *lab) {
			s, to := full(t)
			got := make(chan error)
			go func() { got <- s.Send(context.Background(), to, []byte("x")) }()
			waits(t, s)
			_ = nodeOf(s).Close()
			if err := <-got; !rdstest.Closed(err) {
				t.Error(err)
			}
		})
	})
}
