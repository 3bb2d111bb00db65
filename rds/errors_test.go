//go:build !live

package rds

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

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
		if ev, to := s.Poll(), s.RemoteAddrPort(); ev != PollHup || to.IsValid() {
			t.Errorf("Poll %#x, connected to %v", ev, to)
		}
	})
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
		_, err = s.Write(nil)
		rdstest.WantErr(t, "Write", err, ErrNotConnected, syscall.ENOTCONN)
		six := l.bind(nodeOf(s), netip.MustParseAddrPort("[fd00::1]:4000"))
		rdstest.WantErr(t, "IPv4 from IPv6", six.TrySend(s.LocalAddrPort(), nil), ErrNotSupported, syscall.EOPNOTSUPP)
		n, err := six.TrySendBatch([]Outgoing{{To: s.LocalAddrPort()}})
		if rdstest.WantErr(t, "IPv4 from IPv6, batch", err, ErrNotSupported, syscall.EOPNOTSUPP); n != 0 {
			t.Errorf("%d were sent", n)
		}
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
