package socket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Endpoint is one bound socket of some provider: the node of this process, or
// the kernel. Errors are causes; Socket wraps them.
type Endpoint interface {
	Local() netip.AddrPort
	Send(ctx context.Context, o *datagram.Outgoing, block bool) error
	// SendTo is send for a message that is data alone: through an interface only what is
	// passed by value stays off the heap.
	SendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error
	SendBatch(ctx context.Context, out []datagram.Outgoing, block bool) (int, error)
	Recv(ctx context.Context, block, peek bool) (datagram.Message, error)
	RecvBatch(ctx context.Context, ms []datagram.Message, block bool) (int, error)
	Cancel(to netip.AddrPort) error
	Poll() datagram.Events
	SetDeadline(read, write bool, t time.Time)
	Buffers() (send, receive int)
	SetBuffers(send, receive int) error // 0 leaves a size alone
	SetMonitor(on bool) error
	SetRecvErr(on bool) error
	RecvErr() bool
	SetTOS(tos uint8) error
	TOS() uint8
	SetTransport(w config.Wire) error
	Alloc(n int) datagram.Message
	AllocMemory(n int) (*datagram.Memory, error)
	GetMR(mem []byte, dest netip.Addr, flags datagram.MRFlags) (datagram.Cookie, error)
	FreeMR(c datagram.Cookie, flags datagram.MRFlags) error
	// GetMRBatch exposes mem[i] as cookies[i], of which there are as many.
	GetMRBatch(cookies []datagram.Cookie, mem [][]byte, flags datagram.MRFlags) (int, error)
	FreeMRBatch(cookies []datagram.Cookie, flags datagram.MRFlags) (int, error)
	Connect(to netip.AddrPort) error
	Remote() netip.AddrPort
	SetLinger(d time.Duration)
	Close() error
	// Explain makes one of our errors of what a method has returned, if it is none.
	Explain(err error) error
}

// Socket is one RDS socket, bound to an address. All methods are safe for
// concurrent use. It is a net.PacketConn whose datagrams arrive, once and in
// order.
type Socket struct{ Endpoint Endpoint }

// New makes the socket on an endpoint.
func New(ep Endpoint) *Socket { return &Socket{ep} }

// send and recv are the two calls of the data path.
func (s *Socket) send(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	if err := s.Endpoint.SendTo(ctx, to, data, block); err != nil {
		return s.fail("send", to, err)
	}
	return nil
}

func (s *Socket) recv(ctx context.Context, block, peek bool) (datagram.Message, error) {
	m, err := s.Endpoint.Recv(ctx, block, peek)
	if err != nil {
		return datagram.Message{}, s.fail("receive", netip.AddrPort{}, err)
	}
	return m, nil
}

var _ net.PacketConn = (*Socket)(nil)

func (s *Socket) fail(op string, to netip.AddrPort, err error) error {
	if err == nil {
		return nil
	}
	var oe *datagram.OpError
	if errors.As(err, &oe) {
		return err
	}
	return &datagram.OpError{Op: op, Local: s.Endpoint.Local(), Peer: to, Err: s.Endpoint.Explain(err)}
}

// LocalAddr is Socket.LocalAddr of package rds.
func (s *Socket) LocalAddr() net.Addr { return datagram.Addr(s.Endpoint.Local()) }

// LocalAddrPort is Socket.LocalAddrPort of package rds.
func (s *Socket) LocalAddrPort() netip.AddrPort { return s.Endpoint.Local() }

// RemoteAddrPort is Socket.RemoteAddrPort of package rds.
func (s *Socket) RemoteAddrPort() netip.AddrPort { return s.Endpoint.Remote() }

// Connect is Socket.Connect of package rds.
func (s *Socket) Connect(to netip.AddrPort) error {
	return s.fail("connect", to, s.Endpoint.Connect(address.Unmap(to)))
}

// Send is Socket.Send of package rds.
func (s *Socket) Send(ctx context.Context, to netip.AddrPort, data []byte) error {
	return s.send(ctx, to, data, true)
}

// SendMessage is Socket.SendMessage of package rds.
func (s *Socket) SendMessage(ctx context.Context, o *datagram.Outgoing) error {
	if err := SendWithin(ctx, s.Endpoint, o, true); err != nil {
		return s.fail("send", o.To, err)
	}
	return nil
}

// TrySend is Socket.TrySend of package rds.
func (s *Socket) TrySend(to netip.AddrPort, data []byte) error {
	return s.send(context.Background(), to, data, false)
}

// TrySendMessage is Socket.TrySendMessage of package rds.
func (s *Socket) TrySendMessage(o *datagram.Outgoing) error {
	if err := s.Endpoint.Send(context.Background(), o, false); err != nil {
		return s.fail("send", o.To, err)
	}
	return nil
}

// SendBatch is Socket.SendBatch of package rds.
func (s *Socket) SendBatch(ctx context.Context, out []datagram.Outgoing) (int, error) {
	n, err := s.Endpoint.SendBatch(ctx, out, true)
	if err != nil {
		return n, s.fail("send", out[n].To, err)
	}
	return n, nil
}

// TrySendBatch is Socket.TrySendBatch of package rds.
func (s *Socket) TrySendBatch(out []datagram.Outgoing) (int, error) {
	n, err := s.Endpoint.SendBatch(context.Background(), out, false)
	if err != nil {
		return n, s.fail("send", out[n].To, err)
	}
	return n, nil
}

// AllocMessage is Socket.AllocMessage of package rds.
func (s *Socket) AllocMessage(n int) datagram.Message { return s.Endpoint.Alloc(n) }

// Recv is Socket.Recv of package rds.
func (s *Socket) Recv(ctx context.Context) (datagram.Message, error) {
	return s.recv(ctx, true, false)
}

// TryRecv is Socket.TryRecv of package rds.
func (s *Socket) TryRecv() (datagram.Message, error) {
	return s.recv(context.Background(), false, false)
}

// RecvBatch is Socket.RecvBatch of package rds.
func (s *Socket) RecvBatch(ctx context.Context, ms []datagram.Message) (int, error) {
	n, err := s.Endpoint.RecvBatch(ctx, ms, true)
	if err != nil {
		return n, s.fail("receive", netip.AddrPort{}, err)
	}
	return n, nil
}

// TryRecvBatch is Socket.TryRecvBatch of package rds.
func (s *Socket) TryRecvBatch(ms []datagram.Message) (int, error) {
	n, err := s.Endpoint.RecvBatch(context.Background(), ms, false)
	if err != nil {
		return n, s.fail("receive", netip.AddrPort{}, err)
	}
	return n, nil
}

// ReadMessage is Socket.ReadMessage of package rds.
func (s *Socket) ReadMessage(b []byte, flags datagram.Flags) (n int, m datagram.Message, err error) {
	m, err = s.recv(context.Background(), flags&datagram.DontWait == 0, flags&datagram.Peek != 0)
	if err != nil {
		return 0, datagram.Message{}, err
	}
	n = buf.Copy(b, m.Data)
	m.Truncated = n < len(m.Data)
	if flags&datagram.Trunc != 0 {
		n = len(m.Data)
	}
	m.Release()
	m.Data = nil
	return n, m, nil
}

// ReadFromAddrPort is Socket.ReadFromAddrPort of package rds.
func (s *Socket) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	n, m, err := s.ReadMessage(b, 0)
	return n, m.From, err
}

// WriteToAddrPort is Socket.WriteToAddrPort of package rds.
func (s *Socket) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	if err := s.send(context.Background(), to, b, true); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadFrom is Socket.ReadFrom of package rds.
func (s *Socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.ReadFromAddrPort(b)
	if err != nil {
		return n, nil, err
	}
	return n, datagram.Addr(from), nil
}

// WriteTo is Socket.WriteTo of package rds.
func (s *Socket) WriteTo(b []byte, to net.Addr) (int, error) {
	a, ok := to.(datagram.Addr)
	if !ok {
		if to == nil {
			return 0, s.fail("send", netip.AddrPort{}, datagram.ErrNotConnected)
		}
		ap, err := address.Parse(to.String())
		if err != nil {
			return 0, s.fail("send", netip.AddrPort{}, err)
		}
		a = datagram.Addr(ap)
	}
	return s.WriteToAddrPort(b, netip.AddrPort(a))
}

// Read is Socket.Read of package rds.
func (s *Socket) Read(b []byte) (int, error) {
	n, _, err := s.ReadFromAddrPort(b)
	return n, err
}

// Write is Socket.Write of package rds.
func (s *Socket) Write(b []byte) (int, error) { return s.WriteToAddrPort(b, netip.AddrPort{}) }

// Poll is Socket.Poll of package rds.
func (s *Socket) Poll() datagram.Events { return s.Endpoint.Poll() }

// Close is Socket.Close of package rds.
func (s *Socket) Close() error { return s.fail("close", netip.AddrPort{}, s.Endpoint.Close()) }
