//go:build !live

package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a stack whose sockets reach each other by channels.
type memory struct{ socks map[netip.AddrPort]*memSocket }

type memMessage struct {
	from netip.AddrPort
	data []byte
}

type memSocket struct {
	stack *memory
	addr  netip.AddrPort
	in    chan memMessage
}

func (m *memory) Bind(local netip.AddrPort, _, _ int) (Socket, error) {
	if m.socks[local] != nil {
		return nil, syscall.EADDRINUSE
	}
	s := &memSocket{m, local, make(chan memMessage, 4)}
	m.socks[local] = s
	return s, nil
}

func (m *memory) Counters() (map[string]uint64, error) { return map[string]uint64{"n": 1}, nil }
func (m *memory) State() (any, error)                  { return "fine", nil }
func (m *memory) Links() ([]Link, error)               { return nil, nil }

func (s *memSocket) LocalAddrPort() netip.AddrPort { return s.addr }
func (s *memSocket) Close() error                  { return nil }
func (s *memSocket) SetMonitor(bool) error         { return nil }

func (s *memSocket) RecvNews(context.Context) (uint64, error) { return 0, syscall.EOPNOTSUPP }

func (s *memSocket) target(to netip.AddrPort, b []byte) (chan memMessage, memMessage) {
	m := memMessage{s.addr, append([]byte{}, b...)}
	if to.Port() == 0 { // a ping: the pong is for the sender
		m.from = to
		return s.in, m
	}
	return s.stack.socks[to].in, m
}

func (s *memSocket) Send(ctx context.Context, to netip.AddrPort, b []byte) error {
	c, m := s.target(to, b)
	select {
	case c <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *memSocket) TrySend(to netip.AddrPort, b []byte) error {
	c, m := s.target(to, b)
	select {
	case c <- m:
		return nil
	default:
		return syscall.ENOBUFS
	}
}

func (s *memSocket) Recv(ctx context.Context, b []byte) (int, netip.AddrPort, error) {
	select {
	case m := <-s.in:
		return copy(b, m.data), m.from, nil
	case <-ctx.Done():
		return 0, netip.AddrPort{}, ctx.Err()
	}
}

var (
	addrA = netip.MustParseAddrPort("192.0.2.1:4000")
	addrB = netip.MustParseAddrPort("192.0.2.2:4000")
)

// start returns a client of a server on memory.
func start(t *testing.T) *Client {
	t.Helper()
	return startOn(t, &memory{make(map[netip.AddrPort]*memSocket)})
}

// startOn returns a client of a server on a stack.
func startOn(t *testing.T, stack Stack) *Client {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(theirs, stack) }()
	c := NewClient(ours)
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

func bind(t *testing.T, c *Client, a netip.AddrPort) int {
	t.Helper()
	var r BindResult
	if err := c.Call(t.Context(), OpBind, BindArgs{Local: a}, &r); err != nil || r.Local != a {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Socket
}

func TestStreamsRunSideBySide(t *testing.T) {
	c := start(t)
	a, b := bind(t, c, addrA), bind(t, c, addrB)
	s := Stream{Seed: 1, Count: 1000, Large: 1}
	recv, err1 := c.Start(OpRecv, RecvArgs{Socket: b, From: addrA, Stream: s})
	send, err2 := c.Start(OpSend, SendArgs{Socket: a, To: addrB, Stream: s, Try: true})
	var sent SendResult
	var got RecvResult
	must(t, errors.Join(err1, err2, send.Wait(t.Context(), &sent), recv.Wait(t.Context(), &got)))
	if got.Messages != s.Count || got.Bytes != sent.Bytes {
		t.Errorf("sent %+v, received %+v", sent, got)
	}
	var ping PingResult
	must(t, c.Call(t.Context(), OpPing, PingArgs{Socket: a, To: addrB.Addr()}, &ping))
}

func TestErrnoCrossesTheWire(t *testing.T) {
	c := start(t)
	bind(t, c, addrA)
	if err := c.Call(t.Context(), OpBind, BindArgs{Local: addrA}, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second bind: %v", err)
	}
	if err := c.Call(t.Context(), OpClose, SocketArgs{Socket: 99}, nil); !errors.Is(err, syscall.EBADF) {
		t.Errorf("unknown socket: %v", err)
	}
	if err := c.Call(t.Context(), "dance", nil, nil); err == nil {
		t.Error("unknown command: no error")
	}
}

func TestCommandsEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := bind(t, c, addrA)
		recv, err := c.Start(OpRecv, RecvArgs{Socket: a, From: addrB, Stream: Stream{Count: 1}})
		must(t, err)
		if p, err := recv.Progress(t.Context()); !p.Running || p.Messages != 0 || err != nil {
			t.Errorf("progress: %+v, %v", p, err)
		}
		if err := recv.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		if err := recv.Wait(t.Context(), nil); err == nil {
			t.Error("canceled: no error")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := c.Call(ctx, OpRecv, RecvArgs{Socket: a, Stream: Stream{Count: 1}}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its time: %v", err)
		}
	})
}

func TestCommandsEndWithTheOtherEnd(t *testing.T) {
	ours, theirs := net.Pipe()
	c := NewClient(ours)
	defer func() { _ = c.Close() }()
	go func() { // reads one command and goes away
		_, _ = theirs.Read(make([]byte, 1024))
		_ = theirs.Close()
	}()
	if err := c.Call(t.Context(), OpCounters, nil, nil); !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	<-c.Done()
	if _, err := c.Start(OpCounters, nil); !errors.Is(err, ErrGone) {
		t.Errorf("later: %v, want ErrGone", err)
	}
}
