//go:build !live

package rds

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// Errors of sendmsg(2) on an RDS socket (net/rds/send.c, rds_sendmsg).
func TestSendRefusals(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		n := l.node(Config{})
		s := l.bind(n)
		six := l.bind(n, netip.MustParseAddrPort("[fd00::1]:4000"))
		other := netip.AddrPortFrom(rdstest.NewAddr(), 4000)
		small := l.bind(n)
		rdstest.Must(t, small.SetWriteBuffer(1000))
		big := make([]byte, MaxMessage+1)
		for _, c := range []struct {
			name string
			s    *Socket
			to   string
			data []byte
			want []error
		}{
			{"no destination", s, "", nil, []error{ErrNotConnected, syscall.ENOTCONN}},
			{"wildcard", s, "0.0.0.0:4000", nil, []error{ErrInvalid, syscall.EINVAL}},
			{"multicast", s, "239.1.1.1:4000", nil, []error{ErrInvalid, syscall.EINVAL}},
			{"broadcast", s, "255.255.255.255:4000", nil, []error{ErrInvalid, syscall.EINVAL}},
			{"IPv6 from IPv4", s, "[fd00::2]:4000", nil, []error{ErrNotSupported, syscall.EOPNOTSUPP}},
			{"IPv4 from IPv6", six, other.String(), nil, []error{ErrNotSupported, syscall.EOPNOTSUPP}},
			{"longer than 1 MiB", s, other.String(), big, []error{ErrMessageTooLong, syscall.EMSGSIZE}},
			{"longer than the send buffer", small, other.String(), big[:1001], []error{ErrMessageTooLong, syscall.EMSGSIZE}},
		} {
			var to netip.AddrPort
			if c.to != "" {
				to = netip.MustParseAddrPort(c.to)
			}
			rdstest.WantErr(t, c.name+", Send", c.s.Send(rdstest.Background(t), to, c.data), c.want...)
			rdstest.WantErr(t, c.name+", TrySend", c.s.TrySend(to, c.data), c.want...)
			_, err := c.s.WriteToAddrPort(c.data, to)
			rdstest.WantErr(t, c.name+", WriteToAddrPort", err, c.want...)
			k, err := c.s.SendBatch(rdstest.Background(t), []Outgoing{{To: to, Data: c.data}})
			rdstest.WantErr(t, c.name+", SendBatch", err, c.want...)
			if k != 0 {
				t.Errorf("%s: SendBatch accepted %d", c.name, k)
			}
		}
		// A refusal costs no room: exactly the buffer's size still fits.
		rdstest.NoError(t, small.TrySend(other, big[:1000]))
		if err := s.TrySend(netip.AddrPortFrom(s.LocalAddrPort().Addr(), 9), big[:MaxMessage]); err != nil {
			t.Errorf("1 MiB: %v", err)
		}
	})
}

// Errors of connect(2) (net/rds/af_rds.c, rds_connect).
func TestConnectRefusals(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	s := l.bind(l.node(Config{}))
	for _, c := range []struct {
		name string
		to   netip.AddrPort
		want syscall.Errno
	}{
		{"wildcard", netip.MustParseAddrPort("0.0.0.0:4000"), syscall.EDESTADDRREQ},
		{"nothing", netip.AddrPort{}, syscall.EDESTADDRREQ},
		{"multicast", netip.MustParseAddrPort("224.0.0.1:4000"), syscall.EINVAL},
		{"broadcast", netip.MustParseAddrPort("255.255.255.255:4000"), syscall.EINVAL},
		{"IPv6", netip.MustParseAddrPort("[fd00::1]:4000"), syscall.EOPNOTSUPP},
	} {
		rdstest.WantErr(t, c.name, s.Connect(c.to), c.want)
		if got := s.RemoteAddrPort(); got.IsValid() {
			t.Errorf("%s: destination is now %v", c.name, got)
		}
	}
	_, err := s.Write([]byte("x"))
	rdstest.WantErr(t, "Write", err, ErrNotConnected, syscall.ENOTCONN)
}

func TestCallsAfterClose(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		s := l.bind(l.node(Config{}))
		to := s.LocalAddrPort()
		rdstest.Must(t, s.Close())
		ctx := rdstest.Background(t)
		for _, c := range []struct {
			name string
			call func() error
		}{
			{"Send", func() error { return s.Send(ctx, to, nil) }},
			{"TrySend", func() error { return s.TrySend(to, []byte("x")) }},
			{"SendMessage", func() error { return s.SendMessage(ctx, &Outgoing{To: to}) }},
			{"SendBatch", func() error { _, err := s.SendBatch(ctx, []Outgoing{{To: to}}); return err }},
			{"TrySendBatch", func() error { _, err := s.TrySendBatch([]Outgoing{{To: to}}); return err }},
			{"WriteToAddrPort", func() error { _, err := s.WriteToAddrPort(nil, to); return err }},
			{"WriteTo", func() error { _, err := s.WriteTo(nil, Addr(to)); return err }},
			{"Recv", func() error { _, err := s.Recv(ctx); return err }},
			{"TryRecv", func() error { _, err := s.TryRecv(); return err }},
			{"RecvBatch", func() error { _, err := s.RecvBatch(ctx, make([]Message, 1)); return err }},
			{"TryRecvBatch", func() error { _, err := s.TryRecvBatch(make([]Message, 1)); return err }},
			{"ReadMessage", func() error { _, _, err := s.ReadMessage(nil, Peek); return err }},
			{"ReadFrom", func() error { _, _, err := s.ReadFrom(nil); return err }},
			{"Connect", func() error { return s.Connect(to) }},
			{"CancelSentTo", func() error { return s.CancelSentTo(to) }},
			{"Close", s.Close},
		} {
			rdstest.WantErr(t, c.name, c.call(), net.ErrClosed)
		}
		if ev := s.Poll(); ev != PollHup {
			t.Errorf("Poll %#x", ev)
		}
	})
}

func TestCallsAfterNodeClose(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		n := l.node(Config{})
		s := l.bind(n)
		rdstest.Must(t, n.Close())
		_, err := s.Recv(rdstest.Background(t))
		rdstest.WantErr(t, "Recv", err, net.ErrClosed)
		rdstest.WantErr(t, "second Close", n.Close(), net.ErrClosed)
		_, err = n.Bind(s.LocalAddrPort())
		rdstest.WantErr(t, "Bind", err, net.ErrClosed)
		_, err = n.Bind(netip.AddrPortFrom(rdstest.NewAddr(), 0))
		rdstest.WantErr(t, "Bind elsewhere", err, net.ErrClosed)
		if _, err := n.Info(); err != nil {
			t.Errorf("Info: %v", err)
		}
	})
}

func TestNonBlockingErrors(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	s := l.bind(l.node(Config{}))
	_, err := s.TryRecv()
	rdstest.WantErr(t, "TryRecv", err, ErrWouldBlock, syscall.EAGAIN)
	_, err = s.TryRecvBatch(make([]Message, 3))
	rdstest.WantErr(t, "TryRecvBatch", err, ErrWouldBlock, syscall.EAGAIN)
	_, _, err = s.ReadMessage(nil, DontWait)
	rdstest.WantErr(t, "ReadMessage", err, ErrWouldBlock, syscall.EAGAIN)
	var oe *OpError
	if errors.As(err, &oe) && (oe.Timeout() || !oe.Temporary()) {
		t.Errorf("Timeout %v, Temporary %v", oe.Timeout(), oe.Temporary())
	}
}

func TestSocketOptionRefusals(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		s := l.bind(l.node(Config{}))
		for _, n := range []int{0, -1} {
			rdstest.WantErr(t, "SetReadBuffer", s.SetReadBuffer(n), ErrInvalid, syscall.EINVAL)
			rdstest.WantErr(t, "SetWriteBuffer", s.SetWriteBuffer(n), ErrInvalid, syscall.EINVAL)
		}
		if err := s.SetTOS(3); err != nil || s.TOS() != 3 {
			t.Errorf("TOS %d, %v", s.TOS(), err)
		}
		rdstest.WantErr(t, "second SetTOS", s.SetTOS(4), ErrInvalid, syscall.EINVAL)
		late := l.bind(nodeOf(s))
		rdstest.MustSend(t, late, s.LocalAddrPort(), nil)
		rdstest.WantErr(t, "SetTOS after a send", late.SetTOS(1), ErrInvalid, syscall.EINVAL)
		rdstest.WantErr(t, "CancelSentTo multicast", s.CancelSentTo(netip.MustParseAddrPort("224.0.0.1:1")), ErrInvalid, syscall.EINVAL)
		_, err := s.WriteTo(nil, nil)
		rdstest.WantErr(t, "WriteTo nil", err, ErrNotConnected, syscall.ENOTCONN)
		_, err = s.WriteTo(nil, &net.UnixAddr{Name: "x"})
		rdstest.WantErr(t, "WriteTo a file", err, ErrInvalid, syscall.EINVAL)
	})
}

func TestOpErrorText(t *testing.T) {
	t.Parallel()
	local, peer := netip.MustParseAddrPort("127.0.0.1:4000"), netip.MustParseAddrPort("127.0.0.2:4001")
	for _, c := range []struct {
		err  OpError
		want string
	}{
		{OpError{Op: "node", Err: ErrInvalid}, "rds: node: invalid argument"},
		{OpError{Op: "bind", Local: local, Err: ErrAddressInUse}, "rds: bind 127.0.0.1:4000: address already in use"},
		{OpError{Op: "send", Local: local, Peer: peer, Err: ErrCongested}, "rds: send 127.0.0.1:4000 to 127.0.0.2:4001: destination port congested"},
		{OpError{Op: "send", Local: local, Peer: peer, Err: ErrMessageTooLong}, "rds: send 127.0.0.1:4000 to 127.0.0.2:4001: message too long"},
		{OpError{Op: "send", Local: local, Err: ErrNotConnected}, "rds: send 127.0.0.1:4000: no destination"},
		{OpError{Op: "receive", Local: local, Err: os.ErrDeadlineExceeded}, "rds: receive 127.0.0.1:4000: i/o timeout"},
		{OpError{Op: "close", Local: local, Err: &DroppedError{Messages: 2, Bytes: 300}}, "rds: close 127.0.0.1:4000: 2 unacknowledged messages (300 bytes) dropped"},
		{OpError{Op: "open", Err: ErrNoKernel}, "rds: open: the kernel has no RDS (AF_RDS)"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err                error
		timeout, temporary bool
	}{
		{os.ErrDeadlineExceeded, true, true},
		{context.DeadlineExceeded, true, true},
		{context.Canceled, false, false},
		{ErrWouldBlock, false, true},
		{ErrCongested, false, true},
		{ErrMessageTooLong, false, false},
		{net.ErrClosed, false, false},
	} {
		var e net.Error = &OpError{Op: "send", Err: c.err}
		if e.Timeout() != c.timeout {
			t.Errorf("%v: Timeout %v", c.err, e.Timeout())
		}
		if te, ok := e.(interface{ Temporary() bool }); !ok || te.Temporary() != c.temporary {
			t.Errorf("%v: not Temporary %v", c.err, c.temporary)
		}
	}
}

func TestDeadlineInThePast(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		s := l.bind(l.node(Config{}))
		_ = s.SetReadDeadline(time.Unix(1, 0))
		_, _, err := s.ReadFromAddrPort(nil)
		rdstest.WantErr(t, "read", err, os.ErrDeadlineExceeded)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
		_ = s.SetReadDeadline(time.Time{})
		rdstest.MustSend(t, s, s.LocalAddrPort(), []byte("x"))
		rdstest.Expect(t, s, "x")
	})
}
