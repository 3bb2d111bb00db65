//go:build live

package client

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// Whatever ends a call that waits ends one that listens.
func TestListeningReceiverIsWoken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(c *Client, s *socket.Socket, svc *daemon.Service) error
		want error
	}{
		{"closed", func(_ *Client, s *socket.Socket, _ *daemon.Service) error { return s.Close() }, net.ErrClosed},
		{"deadline", func(_ *Client, s *socket.Socket, _ *daemon.Service) error { return s.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{"later deadline", func(_ *Client, s *socket.Socket, _ *daemon.Service) error {
			return s.SetReadDeadline(time.Now().Add(time.Millisecond))
		}, os.ErrDeadlineExceeded},
		{"client closed", func(c *Client, _ *socket.Socket, _ *daemon.Service) error { return c.Close() }, net.ErrClosed},
		{"daemon lost", func(_ *Client, _ *socket.Socket, svc *daemon.Service) error { return svc.Close() }, datagram.ErrDaemonLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lab) {
				c, _, b, svc := listenerLab(t, l)
				got := listener(t, c, b, forever)
				rdstest.NoError(t, tt.end(c, b, svc))
				rdstest.WantErr(t, "Recv", receivedWithin(t, got).err, tt.want)
			})
		})
	}
}
