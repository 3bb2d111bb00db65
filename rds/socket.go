package rds

import (
	"context"
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/socket"
)

// Socket is one RDS socket, bound to an address. All methods are safe for
// concurrent use. It is a net.PacketConn whose datagrams arrive, once and in
// order.
type Socket struct{ s socket.Socket }

// LocalAddr returns the bound address as an Addr.
func (s *Socket) LocalAddr() net.Addr { return s.s.LocalAddr() }

// LocalAddrPort returns the bound address.
func (s *Socket) LocalAddrPort() netip.AddrPort { return s.s.LocalAddrPort() }

// RemoteAddrPort returns the default destination, zero if there is none.
func (s *Socket) RemoteAddrPort() netip.AddrPort { return s.s.RemoteAddrPort() }

// Connect sets the default destination of sends that name none. It connects
// nothing, may be repeated, and does not filter what is received.
func (s *Socket) Connect(to netip.AddrPort) error { return s.s.Connect(to) }

// Send sends one datagram of at most 1 MiB. It returns when the stack has
// accepted it: from then on it is delivered once and in order, or its fate is
// reported if that was asked for (SendMessage). Send blocks, until ctx ends or
// the write deadline passes, while the destination port is congested or the
// send buffer is full. An unreachable peer is no error: the message waits.
func (s *Socket) Send(ctx context.Context, to netip.AddrPort, data []byte) error {
	return s.s.Send(ctx, to, data)
}

// SendMessage is Send with all there is to say about the message.
func (s *Socket) SendMessage(ctx context.Context, o *Outgoing) error { return s.s.SendMessage(ctx, o) }

// TrySend is Send that never blocks: ErrWouldBlock (EAGAIN) when the send
// buffer is full, ErrCongested (ENOBUFS) when the destination is congested.
func (s *Socket) TrySend(to netip.AddrPort, data []byte) error { return s.s.TrySend(to, data) }

// TrySendMessage is SendMessage that never blocks.
func (s *Socket) TrySendMessage(o *Outgoing) error { return s.s.TrySendMessage(o) }

// SendBatch sends the messages in order and returns how many were accepted;
// that is fewer than all only together with an error, which is that of the
// first one not accepted. It blocks as Send does.
func (s *Socket) SendBatch(ctx context.Context, out []Outgoing) (int, error) {
	return s.s.SendBatch(ctx, out)
}

// TrySendBatch is SendBatch that never blocks.
func (s *Socket) TrySendBatch(out []Outgoing) (int, error) { return s.s.TrySendBatch(out) }

// AllocMessage returns a buffer of n bytes to fill and send without a copy, as
// Outgoing.Buffer.
func (s *Socket) AllocMessage(n int) Message { return s.s.AllocMessage(n) }

// Recv waits for the next message. Its memory is the caller's until
// Message.Release.
func (s *Socket) Recv(ctx context.Context) (Message, error) { return s.s.Recv(ctx) }

// TryRecv is Recv that never blocks: ErrWouldBlock when there is nothing.
func (s *Socket) TryRecv() (Message, error) { return s.s.TryRecv() }

// RecvBatch waits until there is a message and then takes as many as there
// are and ms has room for. Each must be released.
func (s *Socket) RecvBatch(ctx context.Context, ms []Message) (int, error) {
	return s.s.RecvBatch(ctx, ms)
}

// TryRecvBatch is RecvBatch that never blocks.
func (s *Socket) TryRecvBatch(ms []Message) (int, error) { return s.s.TryRecvBatch(ms) }

// ReadMessage is recvmsg(2): it copies the next datagram into b. A datagram
// longer than b is cut, its rest lost (unless Peek is set) and m.Truncated set;
// n is what was copied, with Trunc the whole length. m describes the message
// without its data and needs no Release.
func (s *Socket) ReadMessage(b []byte, flags Flags) (n int, m Message, err error) {
	return s.s.ReadMessage(b, flags)
}

// ReadFromAddrPort copies the next datagram into b and returns its length and
// sender, without allocating. A longer datagram is cut.
func (s *Socket) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	return s.s.ReadFromAddrPort(b)
}

// WriteToAddrPort is Send bounded by the write deadline only, without
// allocating.
func (s *Socket) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	return s.s.WriteToAddrPort(b, to)
}

// ReadFrom implements net.PacketConn. The address is an Addr.
func (s *Socket) ReadFrom(b []byte) (int, net.Addr, error) { return s.s.ReadFrom(b) }

// WriteTo implements net.PacketConn. The address is an Addr, or anything whose
// String is what ParseAddr reads.
func (s *Socket) WriteTo(b []byte, to net.Addr) (int, error) { return s.s.WriteTo(b, to) }

// Read reads the next datagram into b, dropping its sender's address.
func (s *Socket) Read(b []byte) (int, error) { return s.s.Read(b) }

// Write sends b to the destination set by Connect.
func (s *Socket) Write(b []byte) (int, error) { return s.s.Write(b) }

// Poll returns what the socket is ready for, without waiting.
func (s *Socket) Poll() Events { return s.s.Poll() }

// Close unbinds the socket, wakes everybody who waits on it with
// net.ErrClosed, and then waits, at most the linger time, until peers have
// acknowledged what was sent. What remains then is canceled, and the error
// holds a *DroppedError.
func (s *Socket) Close() error { return s.s.Close() }

var _ net.PacketConn = (*Socket)(nil)
