package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Socket is a socket of a Client, the Endpoint of a socket.Socket.
type Socket struct {
	socket.Inbox
	c    *Client
	addr netip.AddrPort

	half atomic.Pointer[half] // nil while there is no daemon

	sndbuf   atomic.Int64
	writers  socket.WaitQueue // senders that wait for room in the half's account, or for a half
	waitDown atomic.Int32     // senders among writers whose peer is down: room for others is not for them

	last atomic.Pointer[destination]
	only atomic.Pointer[config.Wire] // the only wire to send by; nil or WireAuto: any

	losses   atomic.Uint64              // number of daemons lost
	reported atomic.Uint64              // number of lost daemons that calls have reported
	told     atomic.Pointer[attachment] // the attachment whose loss a call has reported
	unsent   unsent                     // messages that earlier daemons have not taken
	failed   atomic.Pointer[error]      // why the socket could not be bound at the new daemon
}

// half is the daemon's half of a socket. The send buffer belongs to it: what was
// charged for one daemon is never given back to the account of another.
type half struct {
	att     *attachment
	id      uint32
	before  uint64 // number of daemons that the socket had lost before it had this one
	cell    ipc.Cell
	account conn.Account

	left    atomic.Bool     // the daemon's half is closed, or is about to be
	waits   socket.WaitList // what senders wait for, and since when; the cell shows the oldest wait
	memory  halfMemory
	downs   downBytes
	asked   askedFates
	freedMu lockorder.Mutex[half]
	retired bool      // the cell may belong to another socket
	freed   [2]uint64 // FreedBytes and FreedMessages of the cell, as refunded to account
}

// destination is a host a socket has sent to, on one attachment.
type destination struct {
	t    *attachment
	addr netip.Addr
	peer uint32
}

// allowed is the error of what is sent to a peer that is not on the daemon's allow-list,
// nil for others.
func (d *destination) allowed() error {
	if d.t.table.Barred(int(d.peer)) {
		return &socket.NotAllowedError{Peer: d.addr}
	}
	return nil
}

// takes tells whether the daemon may send to the destination, and the peer takes messages of n bytes.
func (d *destination) takes(n int) error {
	if err := d.allowed(); err != nil {
		return err
	}
	if limit := d.t.table.Longest(int(d.peer)).Octets(); n > limit {
		return &datagram.MessageTooLongError{Peer: d.addr, Size: n, Limit: limit}
	}
	return nil
}

func newSocket(c *Client, t *attachment) *Socket {
	s := &Socket{c: c}
	s.Inbox.Owner = s
	s.sndbuf.Store(int64(t.welcome.SendBuffer))
	s.ReceiveBuffer.Store(int64(t.welcome.ReceiveBuffer))
	s.Linger.Store(int64(t.welcome.Linger))
	s.Maps.Store(t.table.Maps())
	return s
}

// bind makes the daemon's half of the socket.
func (s *Socket) bind(ctx context.Context, t *attachment, addr netip.AddrPort) error {
	h, err := s.ask(ctx, t, addr)
	if err == nil {
		s.use(h)
	}
	return err
}

// ask has the daemon make its half of the socket. Nobody sends by it before use. A daemon
// that has ended without an answer may have made the half, which is returned with the error:
// messages for it may be on the ring.
func (s *Socket) ask(ctx context.Context, t *attachment, addr netip.AddrPort) (*half, error) {
	q := &ipc.Request{Op: ipc.CallBind, Addr: addr}
	if !addr.Addr().IsValid() { // the text of such an address has no port
		q.Addr, q.Value = netip.AddrPort{}, int64(addr.Port())
	}
	c, id, err := t.ask(q)
	if err != nil {
		return nil, err
	}
	defer t.forgetCall(id)
	r, err := t.answer(ctx, c)
	if errors.Is(err, datagram.ErrDaemonLost) {
		return t.boundBy(id), err
	}
	if err != nil {
		return nil, err
	}
	h := &half{att: t, id: r.Socket, before: s.losses.Load(), cell: t.seg.Cell(int(r.Socket & 0xffff))}
	h.account.SetLimit(int(s.sndbuf.Load()))
	h.waits.Show = h.showWaits
	if !s.addr.IsValid() { // Otherwise the socket is bound again, to the same address.
		s.addr = r.Addr
	}
	return h, nil
}

// use begins to send and receive by a half.
func (s *Socket) use(h *half) {
	s.Queue.TakeMu.Lock()
	s.Queue.Gone = &h.cell
	s.Queue.TakeMu.Unlock()
	h.att.register(s, h, true)
}

// bindWithin is bind of a new socket. The daemon's half of one that is bound after
// ctx has ended is closed again.
func (s *Socket) bindWithin(ctx context.Context, t *attachment, addr netip.AddrPort) error {
	if ctx.Done() == nil {
		return s.bind(ctx, t, addr)
	}
	bound := make(chan error, 1)
	go func() { bound <- s.bind(context.Background(), t, addr) }()
	select {
	case err := <-bound:
		return err
	case <-ctx.Done():
		go func() {
			if <-bound == nil {
				_ = s.Close()
			}
		}()
		return fmt.Errorf("rdsd at %s does not answer: %w", s.c.config.Path, ctx.Err())
	}
}

// Drained is for the inbox.
func (s *Socket) Drained(int) {
	if h := s.half.Load(); h != nil && h.cell.Tell.Take() {
		h.att.bell.Ring()
	}
}

// Wait waits for something to receive, and look looks for it.
func (s *Socket) Wait(ctx context.Context, w *socket.Waiter) error {
	if h := s.half.Load(); h != nil {
		return h.att.wait(ctx, w, true)
	}
	return w.Wait(ctx)
}

func (s *Socket) Look() bool {
	h := s.half.Load()
	return h != nil && h.att.catchUp()
}

// session is the half to send on, waiting for one if block is set.
func (s *Socket) session(ctx context.Context, block bool) (*half, error) {
	for {
		if s.Closed.Load() {
			return nil, net.ErrClosed
		}
		if h := s.living(); h != nil && !s.lossDue() {
			return h, nil
		}
		if err := s.Trouble(s.losses.Load()); err != nil {
			return nil, err
		}
		if h := s.living(); h != nil {
			return h, nil
		}
		if !block {
			return nil, datagram.ErrWouldBlock
		}
		w := s.writers.Add()
		err := s.WriteDeadline.Err()
		if err == nil && s.living() == nil && !s.Closed.Load() && s.failed.Load() == nil {
			err = w.Wait(ctx)
		}
		s.writers.Done(w)
		if err != nil {
			return nil, err
		}
	}
}

// living is the half to send on, nil between the first call that has failed because the
// daemon ended and the next daemon.
func (s *Socket) living() *half {
	h := s.half.Load()
	if h != nil && s.told.Load() == h.att {
		return nil
	}
	return h
}

func (s *Socket) Local() netip.AddrPort { return s.addr }

// tell makes a call about this socket.
func (h *half) tell(q ipc.Request) (*ipc.Reply, error) {
	return h.tellWithin(context.Background(), q)
}

func (h *half) tellWithin(ctx context.Context, q ipc.Request) (*ipc.Reply, error) {
	q.Socket = h.id
	return h.att.call(ctx, q)
}

// set makes a call about this socket on the present attachment.
func (s *Socket) set(q ipc.Request) error {
	h, err := s.session(context.Background(), false)
	if err == nil {
		_, err = h.tell(q)
	}
	return err
}

func (s *Socket) Connect(to netip.AddrPort) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if err := socket.CheckConnect(s.addr.Addr(), to.Addr()); err != nil {
		return err
	}
	if err := s.set(ipc.Request{Op: ipc.CallConnect, Addr: to}); err != nil {
		return err
	}
	s.ToPort.Store(&to)
	return nil
}

func (s *Socket) Cancel(to netip.AddrPort) error {
	switch {
	case s.Closed.Load():
		return net.ErrClosed
	case to.Addr().IsValid() && !address.Unicast(to.Addr()):
		return datagram.ErrInvalid
	}
	h, err := s.session(context.Background(), false)
	if err == nil {
		h.collect()
		bytes, messages := h.account.Bytes(), h.account.Messages()
		if _, err = h.tell(ipc.Request{Op: ipc.CallCancel, Addr: to}); err == nil {
			h.memory.keepOff(to)
			h.collect()
			h.canceled(s.addr.Addr(), to.Addr(), bytes-h.account.Bytes(), messages-h.account.Messages())
			s.writers.Wake(-1)
		}
	}
	return err
}

func (s *Socket) Buffers() (send, receive int) {
	return int(s.sndbuf.Load()), int(s.ReceiveBuffer.Load())
}

func (s *Socket) SetBuffers(send, receive int) error {
	if send > 0 {
		if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionSendBuffer, Value: int64(send)}); err != nil {
			return err
		}
		s.sndbuf.Store(int64(send))
		if h := s.half.Load(); h != nil {
			h.account.SetLimit(send)
		}
		s.writers.Wake(-1)
	}
	if receive > 0 {
		if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionReceiveBuffer, Value: int64(receive)}); err != nil {
			return err
		}
		s.ReceiveBuffer.Store(int64(receive))
	}
	return nil
}

// WakeWriters wakes the senders of this socket wherever they wait.
func (s *Socket) WakeWriters() {
	s.writers.Wake(-1)
	if h := s.half.Load(); h != nil {
		h.att.maps.Wake(-1)
		h.att.space.Wake(-1)
	}
}

func (s *Socket) SetMonitor(on bool) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if on {
		s.Monitor.CompareAndSwap(nil, new(socket.Monitor))
	} else {
		s.Monitor.Store(nil)
	}
	return nil
}

func (s *Socket) SetRecvErr(on bool) error {
	v := int64(0)
	if on {
		v = 1
	}
	if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionRecvErr, Value: v}); err != nil {
		return err
	}
	s.RecvErrOn.Store(on)
	return nil
}

func (s *Socket) Poll() datagram.Events {
	if s.Closed.Load() {
		return datagram.PollHup
	}
	s.Look()
	h := s.half.Load()
	var ev datagram.Events
	switch {
	case h != nil && h.hasRoom() && h.att.budget.hasRoom(h.att):
		ev |= datagram.PollOut
	case h == nil && (!s.c.config.Reconnect || s.failed.Load() != nil):
		ev |= datagram.PollIn | datagram.PollOut // no call would wait: all calls fail
	}
	if s.lossDue() {
		ev |= datagram.PollIn
	}
	maps := s.Maps.Load()
	if h != nil {
		maps = h.att.table.Maps()
	}
	return ev | s.PollIn(maps)
}

// Alloc returns memory of the send arena, or ordinary memory if that is used
// up, which is copied when it is sent.
func (s *Socket) Alloc(n int) datagram.Message {
	if h := s.half.Load(); h != nil && n > 0 {
		b := h.att.alloc(n)
		if b == nil && h.att.catchUp() {
			b = h.att.alloc(n)
		}
		if b != nil {
			return datagram.Message{Data: b.B, Buf: &b.Buf}
		}
	}
	return datagram.Message{Data: make([]byte, n)}
}

// Close ends the socket. The daemon waits for what was sent.
func (s *Socket) Close() error {
	if s.Closed.Swap(true) {
		return net.ErrClosed
	}
	s.c.forget(s)
	s.Readers.Wake(-1)
	s.WakeWriters()
	s.SetDeadline(true, true, time.Time{})
	h := s.half.Load()
	if h == nil {
		s.Queue.Drop()
		return nil
	}
	return s.leave(h)
}

// leave has the daemon close its half of a socket that is closed, once.
func (s *Socket) leave(h *half) error {
	s.Queue.Drop() // before the call: after the call the cell may belong to another socket
	if h.left.Swap(true) {
		return nil
	}
	h.waits.Hide()
	r, err := h.tell(ipc.Request{Op: ipc.CallClose, Linger: time.Duration(s.Linger.Load())})
	h.att.unregister(s, h.id)
	h.retire()
	h.memory.keepOff(netip.AddrPort{})
	switch {
	case err != nil:
		return err
	case r.Messages > 0:
		return &datagram.DroppedError{Messages: r.Messages, Bytes: r.Bytes}
	}
	return nil
}

func (s *Socket) Explain(err error) error { return err }
