//go:build !live

package node

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// lateTransport makes links whose first write waits until write is closed.
type lateTransport struct {
	transport.Transport
	write chan struct{}
}

func (t lateTransport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := t.Transport.Dial(ctx, local, remote, path)
	return &lateLink{l, t.write}, err
}

func (t lateTransport) Listen(local netip.Addr, accept func(transport.Link)) error {
	return t.Transport.Listen(local, func(l transport.Link) { accept(&lateLink{l, t.write}) })
}

type lateLink struct {
	transport.Link
	write chan struct{}
}

// Caps are those of TCP: the peer does not hear that a port is not bound.
func (l *lateLink) Caps() transport.Caps { return transport.Caps{Pauses: true, Path: -1} }

func (l *lateLink) Send(frames []transport.Frame) (transport.Taken, error) {
	<-l.write
	return l.Link.Send(frames)
}

// closeBeforeWrite sends a message to a port of a node that has not yet written on the link,
// closes the node, and returns the sender.
func closeBeforeWrite(t *testing.T, bound bool) *socket.Socket {
	t.Helper()
	l := newLoopLab(t)
	write := make(chan struct{})
	from := l.bind(l.node(config.Node{}))
	n := l.node(config.Node{Transport: lateTransport{l.Net.Transport(), write}})
	to := l.bind(n)
	addr := to.LocalAddrPort()
	if !bound {
		addr = netip.AddrPortFrom(addr.Addr(), addr.Port()+1)
	}
	rdstest.Must(t, from.SendMessage(t.Context(), &datagram.Outgoing{To: addr, Data: []byte("last"), Token: 1, Notify: true}))
	if bound {
		rdstest.Expect(t, to, "last")
	} else {
		synctest.Wait()
		if c := rdstest.Counter(t, n, "recv_drop_no_sock"); c != 1 {
			t.Fatalf("%d messages have found no port", c)
		}
	}
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	synctest.Wait() // Close has done what it does before the link writes
	close(write)
	rdstest.NoError(t, <-closed)
	return from
}

// A node that closes before its first write on a link, which is what proves to the peer that
// acknowledgements count, writes before the link ends: the sender of a message that a
// socket has received does not wait for a node that is gone.
func TestNodeThatClosesProvesItsLinks(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) { rdstest.WantStatus(t, closeBeforeWrite(t, true), 1, datagram.StatusSuccess) })
}

// A link that has brought nothing to a socket ends without that write: its messages are not
// taken for delivered.
func TestNodeThatClosesDoesNotProveWhatNobodyReceived(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		from := closeBeforeWrite(t, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := from.Recv(ctx)
		rdstest.WantErr(t, "the fate", err, context.DeadlineExceeded)
	})
}
