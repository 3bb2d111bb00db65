package rds

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/buf"
)

// endpoint is one bound socket of some provider: the node of this process, or
// the kernel. Errors are causes; Socket wraps them.
type endpoint interface {
	local() netip.AddrPort
	send(ctx context.Context, o *Outgoing, block bool) error
	// sendTo is send for a message that is data alone: through an interface only what is
	// passed by value stays off the heap.
	sendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error
	sendBatch(ctx context.Context, out []Outgoing, block bool) (int, error)
	recv(ctx context.Context, block, peek bool) (Message, error)
	recvBatch(ctx context.Context, ms []Message, block bool) (int, error)
	cancel(to netip.AddrPort) error
	poll() Events
	setDeadline(read, write bool, t time.Time)
	buffers() (send, receive int)
	setBuffers(send, receive int) error // 0 leaves a size alone
	setMonitor(on bool) error
	setRecvErr(on bool) error
	recvErr() bool
	setTOS(tos uint8) error
	tos() uint8
	setTransport(w Wire) error
	alloc(n int) Message
	allocMemory(n int) (*Memory, error)
	getMR(mem []byte, dest netip.Addr, flags MRFlags) (Cookie, error)
	freeMR(c Cookie, flags MRFlags) error
	connect(to netip.AddrPort) error
	remote() netip.AddrPort
	setLinger(d time.Duration)
	close() error
	// explain makes one of our errors of what a method has returned, if it is none.
	explain(err error) error
}

// Socket is one RDS socket, bound to an address. All methods are safe for
// concurrent use. It is a net.PacketConn whose datagrams arrive, once and in
// order.
type Socket struct{ ep endpoint }

func newSocket(ep endpoint) *Socket { return &Socket{ep} }

// send and recv are the two calls of the data path.
func (s *Socket) send(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	if err := s.ep.sendTo(ctx, to, data, block); err != nil {
		return s.fail("send", to, err)
	}
	return nil
}

func (s *Socket) recv(ctx context.Context, block, peek bool) (Message, error) {
	m, err := s.ep.recv(ctx, block, peek)
	if err != nil {
		return Message{}, s.fail("receive", netip.AddrPort{}, err)
	}
	return m, nil
}

var _ net.PacketConn = (*Socket)(nil)

func (s *Socket) fail(op string, to netip.AddrPort, err error) error {
	if err == nil {
		return nil
	}
	var oe *OpError
	if errors.As(err, &oe) {
		return err
	}
	return &OpError{Op: op, Local: s.ep.local(), Peer: to, Err: s.ep.explain(err)}
}

// LocalAddr returns the bound address as an Addr.
func (s *Socket) LocalAddr() net.Addr { return Addr(s.ep.local()) }

// LocalAddrPort returns the bound address.
func (s *Socket) LocalAddrPort() netip.AddrPort { return s.ep.local() }

// RemoteAddrPort returns the default destination, zero if there is none.
func (s *Socket) RemoteAddrPort() netip.AddrPort { return s.ep.remote() }

// Connect sets the default destination of sends that name none. It connects
// nothing, may be repeated, and does not filter what is received.
func (s *Socket) Connect(to netip.AddrPort) error {
	return s.fail("connect", to, s.ep.connect(unmap(to)))
}

// Send sends one datagram of at most 1 MiB. It returns when the stack has
// accepted it: from then on it is delivered once and in order, or its fate is
// reported if that was asked for (SendMessage). Send blocks, until ctx ends or
// the write deadline passes, while the destination port is congested or the
// send buffer is full. An unreachable peer is no error: the message waits.
func (s *Socket) Send(ctx context.Context, to netip.AddrPort, data []byte) error {
	return s.send(ctx, to, data, true)
}

// SendMessage is Send with all there is to say about the message.
func (s *Socket) SendMessage(ctx context.Context, o *Outgoing) error {
	if err := sendWithin(ctx, s.ep, o, true); err != nil {
		return s.fail("send", o.To, err)
	}
	return nil
}

// TrySend is Send that never blocks: ErrWouldBlock (EAGAIN) when the send
// buffer is full, ErrCongested (ENOBUFS) when the destination is congested.
func (s *Socket) TrySend(to netip.AddrPort, data []byte) error {
	return s.send(context.Background(), to, data, false)
}

// TrySendMessage is SendMessage that never blocks.
func (s *Socket) TrySendMessage(o *Outgoing) error {
	if err := s.ep.send(context.Background(), o, false); err != nil {
		return s.fail("send", o.To, err)
	}
	return nil
}

// SendBatch sends the messages in order and returns how many were accepted;
// that is fewer than all only together with an error, which is that of the
// first one not accepted. It blocks as Send does.
func (s *Socket) SendBatch(ctx context.Context, out []Outgoing) (int, error) {
	n, err := s.ep.sendBatch(ctx, out, true)
	if err != nil {
		return n, s.fail("send", out[n].To, err)
	}
	return n, nil
}

// TrySendBatch is SendBatch that never blocks.
func (s *Socket) TrySendBatch(out []Outgoing) (int, error) {
	n, err := s.ep.sendBatch(context.Background(), out, false)
	if err != nil {
		return n, s.fail("send", out[n].To, err)
	}
	return n, nil
}

// AllocMessage returns a buffer of n bytes to fill and send without a copy, as
// Outgoing.Buffer.
func (s *Socket) AllocMessage(n int) Message { return s.ep.alloc(n) }

// Recv waits for the next message. Its memory is the caller's until
// Message.Release.
func (s *Socket) Recv(ctx context.Context) (Message, error) {
	return s.recv(ctx, true, false)
}

// TryRecv is Recv that never blocks: ErrWouldBlock when there is nothing.
func (s *Socket) TryRecv() (Message, error) {
	return s.recv(context.Background(), false, false)
}

// RecvBatch waits until there is a message and then takes as many as there
// are and ms has room for. Each must be released.
func (s *Socket) RecvBatch(ctx context.Context, ms []Message) (int, error) {
	n, err := s.ep.recvBatch(ctx, ms, true)
	if err != nil {
		return n, s.fail("receive", netip.AddrPort{}, err)
	}
	return n, nil
}

// TryRecvBatch is RecvBatch that never blocks.
func (s *Socket) TryRecvBatch(ms []Message) (int, error) {
	n, err := s.ep.recvBatch(context.Background(), ms, false)
	if err != nil {
		return n, s.fail("receive", netip.AddrPort{}, err)
	}
	return n, nil
}

// ReadMessage is recvmsg(2): it copies the next datagram into b. A datagram
// longer than b is cut, its rest lost (unless Peek is set) and m.Truncated set;
// n is what was copied, with Trunc the whole length. m describes the message
// without its data and needs no Release.
func (s *Socket) ReadMessage(b []byte, flags Flags) (n int, m Message, err error) {
	m, err = s.recv(context.Background(), flags&DontWait == 0, flags&Peek != 0)
	if err != nil {
		return 0, Message{}, err
	}
	n = buf.Copy(b, m.Data)
	m.Truncated = n < len(m.Data)
	if flags&Trunc != 0 {
		n = len(m.Data)
	}
	m.Release()
	m.Data = nil
	return n, m, nil
}

// ReadFromAddrPort copies the next datagram into b and returns its length and
// sender, without allocating. A longer datagram is cut.
func (s *Socket) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	n, m, err := s.ReadMessage(b, 0)
	return n, m.From, err
}

// WriteToAddrPort is Send bounded by the write deadline only, without
// allocating.
func (s *Socket) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	if err := s.send(context.Background(), to, b, true); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadFrom implements net.PacketConn. The address is an Addr.
func (s *Socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.ReadFromAddrPort(b)
	if err != nil {
		return n, nil, err
	}
	return n, Addr(from), nil
}

// WriteTo implements net.PacketConn. The address is an Addr, or anything whose
// String is what ParseAddr reads.
func (s *Socket) WriteTo(b []byte, to net.Addr) (int, error) {
	a, ok := to.(Addr)
	if !ok {
		if to == nil {
			return 0, s.fail("send", netip.AddrPort{}, ErrNotConnected)
		}
		ap, err := parseAddr(to.String())
		if err != nil {
			return 0, s.fail("send", netip.AddrPort{}, err)
		}
		a = Addr(ap)
	}
	return s.WriteToAddrPort(b, netip.AddrPort(a))
}

// Read reads the next datagram into b, dropping its sender's address.
func (s *Socket) Read(b []byte) (int, error) {
	n, _, err := s.ReadFromAddrPort(b)
	return n, err
}

// Write sends b to the destination set by Connect.
func (s *Socket) Write(b []byte) (int, error) { return s.WriteToAddrPort(b, netip.AddrPort{}) }

// Poll returns what the socket is ready for, without waiting.
func (s *Socket) Poll() Events { return s.ep.poll() }

// Close unbinds the socket, wakes everybody who waits on it with
// net.ErrClosed, and then waits, at most the linger time, until peers have
// acknowledged what was sent. What remains then is canceled, and the error
// holds a *DroppedError.
func (s *Socket) Close() error { return s.fail("close", netip.AddrPort{}, s.ep.close()) }
