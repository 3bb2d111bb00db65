//go:build !live

package client

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// blocked are calls that wait: to receive, for room in the send buffer, and for
// a congested port.
type blocked struct {
	recv, full, congested *socket.Socket
	calls                 map[string]chan error
}

func newBlocked(t testing.TB, c *Client, congested *socket.Socket) *blocked {
	t.Helper()
	b := &blocked{calls: make(map[string]chan error)}
	for _, s := range []**socket.Socket{&b.recv, &b.full, &b.congested} {
		*s = bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		(*s).SetLinger(0)
	}
	rdstest.Must(t, b.full.SetWriteBuffer(10_000))
	filled(t, b.full, 1000)
	rdstest.Eventually(t, "congestion", func() bool {
		return errors.Is(b.congested.TrySend(congested.LocalAddrPort(), make([]byte, 1000)), datagram.ErrCongested)
	})
	ctx := context.Background()
	run := func(name string, f func() error) {
		c := make(chan error, 1)
		b.calls[name] = c
		go func() { c <- f() }()
	}
	run("Recv", func() error { _, err := b.recv.Recv(ctx); return err })
	run("second Recv", func() error { _, err := b.recv.RecvBatch(ctx, make([]datagram.Message, 1)); return err })
	run("Recv of a sender", func() error { _, err := b.full.Recv(ctx); return err })
	run("Send", func() error { return b.full.Send(ctx, rdstest.Nowhere(), nil) })
	run("second Send", func() error { return b.full.Send(ctx, rdstest.Nowhere(), nil) })
	run("congested Send", func() error { return b.congested.Send(ctx, congested.LocalAddrPort(), nil) })
	h := clientHalfOf(b.congested).half.Load()
	rdstest.Eventually(t, "all wait", func() bool {
		return clientHalfOf(b.recv).Readers.N.Load() == 2 && clientHalfOf(b.full).Readers.N.Load() == 1 && clientHalfOf(b.full).writers.N.Load() == 2 && h.att.maps.N.Load() == 1
	})
	return b
}

// fail checks that all calls fail, in time.
func (b *blocked) fail(t testing.TB, in time.Duration, want error) {
	t.Helper()
	late := time.After(in)
	for name, c := range b.calls {
		select {
		case err := <-c:
			rdstest.WantErr(t, name, err, want)
		case <-late:
			t.Fatalf("%s is still blocked", name)
		}
	}
}

// With Reconnect what is blocked fails, once; then sockets go on at the next
// daemon, with their addresses and options.
func TestReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d := newRestarted(t, l)
		far := l.bindOne(config.Node{})
		full := l.bindOne(config.Node{ReceiveBuffer: 1000})
		c := d.client(true)
		b := newBlocked(t, c, full)
		rdstest.Must(t, errors.Join(b.recv.SetReadBuffer(123_456), b.recv.SetWriteBuffer(65_432), b.recv.SetRecvErr(true), b.recv.Connect(far.LocalAddrPort())))
		rdstest.MustSend(t, far, b.congested.LocalAddrPort(), []byte("before"))
		rdstest.Eventually(t, "arrival", func() bool {
			return b.congested.Poll()&datagram.PollIn != 0 && clientHalfOf(b.congested).Queue.Count.Load() > 0
		})

		for round := range 3 {
			d.stop()
			if round == 0 {
				b.fail(t, rdstest.Patience, datagram.ErrDaemonLost)
				rdstest.Expect(t, b.congested, "before") // what had come stays
			}
			if _, err := c.Info(); !errors.Is(err, datagram.ErrDaemonLost) {
				t.Errorf("Info: %v", err)
			}
			if _, err := c.Bind(rdstest.AddrOf(rdstest.NewAddr(), 1000)); !errors.Is(err, datagram.ErrDaemonLost) {
				t.Errorf("Bind: %v", err)
			}
			wait := make(chan error, 1)
			if round == 0 { // the loss was reported: this waits for the next daemon
				go func() { wait <- b.recv.Send(rdstest.Background(t), far.LocalAddrPort(), []byte("waited")) }()
				rdstest.Eventually(t, "it waits", func() bool { return clientHalfOf(b.recv).writers.N.Load() == 1 })
				rdstest.WantErr(t, "TrySend", b.full.TrySend(far.LocalAddrPort(), nil), datagram.ErrWouldBlock)
			}
			d.start()
			if round == 0 {
				rdstest.Must(t, <-wait)
				rdstest.Expect(t, far, "waited")
			} else {
				_, err := b.recv.Recv(rdstest.Background(t)) // nobody waited: the next call tells
				rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
			}
			// Both ways, from and to the same address.
			rdstest.MustSend(t, b.recv, far.LocalAddrPort(), []byte("there"))
			m := rdstest.MustRecv(t, far)
			if m.From != b.recv.LocalAddrPort() {
				t.Errorf("from %v instead of %v", m.From, b.recv.LocalAddrPort())
			}
			m.Release()
			rdstest.MustSend(t, far, b.recv.LocalAddrPort(), []byte("back"))
			rdstest.Expect(t, b.recv, "back")
		}
		b.keepsSettings(t, c, far)
	})
}

// keepsSettings checks what TestReconnect has set.
func (b *blocked) keepsSettings(t *testing.T, c *Client, far *socket.Socket) {
	t.Helper()
	if send, receive := b.recv.Buffers(); send != 65_432 || receive != 123_456 {
		t.Errorf("buffers of %d and %d", send, receive)
	}
	info, err := c.Info()
	rdstest.Must(t, err)
	for _, x := range info.Sockets {
		if x.Bound == b.recv.LocalAddrPort() && (x.Connected != far.LocalAddrPort() || x.SendBuffer != 65_432 || x.ReceiveBuf != 123_456) {
			t.Errorf("%+v", x)
		}
	}
	rdstest.Must(t, b.recv.TrySend(rdstest.Nowhere(), []byte("x")))
	rdstest.Must(t, b.recv.CancelSentTo(rdstest.AddrOf(noAddr, 0)))
	if m := rdstest.MustRecv(t, b.recv); m.Kind != datagram.KindStatus || m.Status != datagram.StatusCanceled {
		t.Errorf("%v: RECVERR is lost", &m)
	}
	// The send buffer is empty, and as large as before.
	if err := b.full.TrySend(far.LocalAddrPort(), nil); errors.Is(err, datagram.ErrDaemonLost) {
		err = b.full.TrySend(far.LocalAddrPort(), nil)
		rdstest.NoError(t, err)
	}
	if n := filled(t, b.full, 1000); n != 10 {
		t.Errorf("%d messages of 1,000 bytes in 10,000", n)
	}
}

// Without Reconnect every later call fails, but what has been received stays.
// What is blocked fails at once, which is before any timer of a Client could have it fail.
func TestDaemonLost(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d := newRestarted(t, l)
		far := l.bindOne(config.Node{})
		c := d.client(false)
		b := newBlocked(t, c, l.bindOne(config.Node{ReceiveBuffer: 1000}))
		rdstest.MustSend(t, far, b.congested.LocalAddrPort(), []byte("before"))
		rdstest.Eventually(t, "arrival", func() bool { return clientHalfOf(b.congested).Queue.Count.Load() > 0 })
		d.stop()
		b.fail(t, attachTimeout, datagram.ErrDaemonLost)
		rdstest.Expect(t, b.congested, "before")
		d.start()
		ctx := rdstest.Background(t)
		for range 2 {
			for name, s := range map[string]*socket.Socket{"recv": b.recv, "full": b.full, "congested": b.congested} {
				rdstest.WantErr(t, name+": Send", s.Send(ctx, far.LocalAddrPort(), nil), datagram.ErrDaemonLost)
				rdstest.WantErr(t, name+": TrySend", s.TrySend(far.LocalAddrPort(), nil), datagram.ErrDaemonLost)
				_, err := s.SendBatch(ctx, []datagram.Outgoing{{To: far.LocalAddrPort()}})
				rdstest.WantErr(t, name+": SendBatch", err, datagram.ErrDaemonLost)
				_, err = s.Recv(ctx)
				rdstest.WantErr(t, name+": Recv", err, datagram.ErrDaemonLost)
				_, err = s.TryRecv()
				rdstest.WantErr(t, name+": TryRecv", err, datagram.ErrDaemonLost)
				rdstest.WantErr(t, name+": Connect", s.Connect(far.LocalAddrPort()), datagram.ErrDaemonLost)
				rdstest.WantErr(t, name+": CancelSentTo", s.CancelSentTo(far.LocalAddrPort()), datagram.ErrDaemonLost)
				rdstest.WantErr(t, name+": SetReadBuffer", s.SetReadBuffer(1000), datagram.ErrDaemonLost)
				if ev := s.Poll(); ev != datagram.PollIn|datagram.PollOut {
					t.Errorf("%s: Poll %#x", name, ev)
				}
			}
			_, err := c.Bind(rdstest.AddrOf(rdstest.NewAddr(), 0))
			rdstest.WantErr(t, "Bind", err, datagram.ErrDaemonLost)
			_, err = c.Info()
			rdstest.WantErr(t, "Info", err, datagram.ErrDaemonLost)
		}
		m := b.full.AllocMessage(1000) // still there, and of no use
		m.Release()
		rdstest.NoError(t, b.recv.Close())
		_, err := b.recv.Recv(ctx)
		rdstest.WantErr(t, "Recv after Close", err, net.ErrClosed)
		rdstest.NoError(t, c.Close())
		rdstest.WantErr(t, "Send after the Client's Close", b.full.Send(ctx, far.LocalAddrPort(), nil), net.ErrClosed)
	})
}

// A Client that looks for a daemon can be closed, and wakes who waits for one.
func TestCloseWhileReconnecting(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d := newRestarted(t, l)
		c := d.client(true)
		s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		d.stop()
		_, err := s.Recv(rdstest.Background(t))
		rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
		calls := make(chan error, 2)
		go func() { calls <- s.Send(context.Background(), rdstest.Nowhere(), nil) }()
		go func() { _, err := s.Recv(context.Background()); calls <- err }()
		rdstest.Eventually(t, "they wait", func() bool { return clientHalfOf(s).writers.N.Load() == 1 && clientHalfOf(s).Readers.N.Load() == 1 })
		_ = s.SetWriteDeadline(time.Unix(1, 0))
		rdstest.WantErr(t, "Send after its deadline", <-calls, os.ErrDeadlineExceeded)
		rdstest.Must(t, c.Close())
		rdstest.WantErr(t, "Recv after Close", <-calls, net.ErrClosed)
	})
}

// An address that another program has taken meanwhile is lost for good. The loss of the
// daemon is told before, also to who asks late.
func TestReconnectFindsItsAddressTaken(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d := newRestarted(t, l)
		s := bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100))
		d.stop()
		other := l.bind(d.node, s.LocalAddrPort())
		d.start()
		rdstest.Eventually(t, "the address to be refused", func() bool { return clientHalfOf(s).failed.Load() != nil })
		_, err := s.Recv(rdstest.Background(t))
		rdstest.WantErr(t, "Recv", err, datagram.ErrDaemonLost)
		for range 2 {
			_, err = s.Recv(rdstest.Background(t))
			rdstest.WantErr(t, "Recv", err, datagram.ErrAddressInUse)
			rdstest.WantErr(t, "Send", s.Send(rdstest.Background(t), other.LocalAddrPort(), nil), datagram.ErrAddressInUse)
		}
	})
}

// A daemon that was told to stop just after a program has attached to it binds no sockets
// any more. That is not the end of the program's socket, which goes on at the next daemon.
func TestReconnectToADaemonThatStops(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d := newDrained(t, l)
		c, far := d.client(true), l.bindOne(config.Node{})
		s := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		at, err := c.current()
		rdstest.Must(t, err)
		d.drain()
		clientHalfOf(s).half.Store(nil) // as if at had just been found
		clientHalfOf(s).rebind(at)
		lost := make(chan error, 1)
		go func() { _, err := s.Recv(rdstest.Background(t)); lost <- err }()
		rdstest.Eventually(t, "it waits", func() bool { return clientHalfOf(s).Readers.N.Load() == 1 || len(lost) > 0 })
		d.stop()
		rdstest.WantErr(t, "Recv", <-lost, datagram.ErrDaemonLost)
		d.restart()
		rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("there"))
		rdstest.Expect(t, far, "there")
		rdstest.MustSend(t, far, s.LocalAddrPort(), []byte("back"))
		rdstest.Expect(t, s, "back")
	})
}
