//go:build !live

package rds

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport"
)

// slowStart is a transport whose dialed links take their time to start.
type slowStart struct {
	transport.Transport
	starting chan struct{} // closed when the first link is being started
	start    chan struct{} // has it go on when closed
	early    atomic.Bool   // a link was written to before it was started
}

func (t *slowStart) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := t.Transport.Dial(ctx, local, remote, path)
	if err != nil {
		return nil, err
	}
	return &slowLink{Link: l, t: t}, nil
}

type slowLink struct {
	transport.Link
	t       *slowStart
	started atomic.Bool
}

func (l *slowLink) Start(h transport.Handler) error {
	close(l.t.starting)
	<-l.t.start
	l.started.Store(true)
	return l.Link.Start(h)
}

// Send takes nothing before Start, and has no handler to tell when it would.
func (l *slowLink) Send(frames []transport.Frame) (transport.Taken, error) {
	if !l.started.Load() {
		l.t.early.Store(true)
		return transport.Taken{}, nil
	}
	return l.Link.Send(frames)
}

// A sender that came while a link was being started wrote to it at once. If the
// link was full then, it had no handler to tell when it was not any more, and
// nothing was written until the connection ended.
func TestNobodyWritesBeforeALinkIsStarted(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		slow := &slowStart{Transport: l.Net.Transport(), starting: make(chan struct{}), start: make(chan struct{})}
		to := l.bind(l.node(Config{}))
		from := l.bind(l.node(Config{Transport: slow}), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 4000))
		ctx, cancel := context.WithTimeout(t.Context(), rdstest.Patience)
		defer cancel()
		send := func(b byte) {
			t.Helper()
			rdstest.Must(t, from.Send(ctx, to.LocalAddrPort(), []byte{b}))
		}
		send(0)
		select {
		case <-slow.starting:
		case <-ctx.Done():
			t.Fatal("no link was started")
		}
		send(1)
		close(slow.start)
		for want := range byte(2) {
			m, err := to.Recv(ctx)
			if err != nil {
				t.Fatalf("message %d: %v", want, err)
			}
			if m.Data[0] != want {
				t.Errorf("message %d came instead of %d", m.Data[0], want)
			}
			m.Release()
		}
		if slow.early.Load() {
			t.Error("the link was written to before it was started")
		}
	})
}
