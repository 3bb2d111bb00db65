package rds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
)

// clientSocket is a socket of a Client: the endpoint behind a Socket.
type clientSocket struct {
	inbox
	c    *Client
	addr netip.AddrPort

	half atomic.Pointer[half] // nil while there is no daemon

	sndbuf   atomic.Int64
	writers  waitQueue    // senders that wait for room in the half's account, or for a half
	waitDown atomic.Int32 // senders among writers whose peer is down: room for others is not for them
	wdl      deadline

	last   atomic.Pointer[destination]
	only   atomic.Pointer[Wire] // the only wire to send by; nil or WireAuto: any
	toPort atomic.Pointer[netip.AddrPort]
	linger atomic.Int64

	recvErrOn atomic.Bool
	tosValue  atomic.Uint32 // value + 1<<8 once set
	sent      atomic.Bool
	news      atomic.Uint64 // Table.Maps as last polled

	losses atomic.Uint64              // number of daemons lost
	loss   atomic.Bool                // a daemon was lost and no call has reported it
	told   atomic.Pointer[attachment] // the attachment whose loss a call has reported
	unsent unsent                     // messages that earlier daemons have not taken
	failed atomic.Pointer[error]      // why the socket could not be bound at the new daemon
}

// half is the daemon's half of a socket. The send buffer belongs to it: what was
// charged for one daemon is never given back to the account of another.
type half struct {
	t       *attachment
	id      uint32
	cell    ipc.Cell
	account conn.Account

	waits   waitList // what senders wait for, and since when; the cell shows the oldest wait
	memory  halfMemory
	downs   downBytes
	asked   askedFates
	freedMu sync.Mutex
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
		return &notAllowedError{d.addr}
	}
	return nil
}

func newClientSocket(c *Client, t *attachment) *clientSocket {
	s := &clientSocket{c: c}
	s.inbox.owner = s
	s.sndbuf.Store(int64(t.welcome.SendBuffer))
	s.rcvbuf.Store(int64(t.welcome.ReceiveBuffer))
	s.linger.Store(int64(t.welcome.Linger))
	s.news.Store(t.table.Maps())
	return s
}

// bind makes the daemon's half of the socket.
func (s *clientSocket) bind(ctx context.Context, t *attachment, addr netip.AddrPort) error {
	h, err := s.ask(ctx, t, addr)
	if err == nil {
		s.use(h)
	}
	return err
}

// ask has the daemon make its half of the socket. Nobody sends by it before use. A daemon
// that has ended without an answer may have made the half, which is returned with the error:
// messages for it may be on the ring.
func (s *clientSocket) ask(ctx context.Context, t *attachment, addr netip.AddrPort) (*half, error) {
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
	if errors.Is(err, ErrDaemonLost) {
		return t.boundBy(id), err
	}
	if err != nil {
		return nil, err
	}
	h := &half{t: t, id: r.Socket, cell: t.seg.Cell(int(r.Socket & 0xffff))}
	h.account.SetLimit(int(s.sndbuf.Load()))
	h.waits.show = h.showWaits
	if !s.addr.IsValid() { // Otherwise the socket is bound again, to the same address.
		s.addr = r.Addr
	}
	return h, nil
}

// use begins to send and receive by a half.
func (s *clientSocket) use(h *half) {
	s.q.rmu.Lock()
	s.q.gone = &h.cell
	s.q.rmu.Unlock()
	s.half.Store(h)
	h.t.register(s, h)
}

// bindWithin is bind of a new socket. The daemon's half of one that is bound after
// ctx has ended is closed again.
func (s *clientSocket) bindWithin(ctx context.Context, t *attachment, addr netip.AddrPort) error {
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
				_ = s.close()
			}
		}()
		return fmt.Errorf("rdsd at %s does not answer: %w", s.c.cfg.Path, ctx.Err())
	}
}

// lost is the end of the attachment.
func (s *clientSocket) lost(t *attachment) {
	if h := s.half.Load(); h != nil {
		s.loseOperations(h) // before anybody hears of the loss instead of the fates of operations
		s.loseFates(h)
	}
	s.loss.Store(true)
	if s.told.Load() == t {
		s.loss.Store(false)
	}
	s.losses.Add(1)
	s.half.Store(nil)
	s.q.cutOff()
	s.readers.wake(-1)
	s.writers.wake(-1)
}

// lossOf is the error of a call that was under way on an attachment that has
// ended. The next call need not hear of it.
func (s *clientSocket) lossOf(t *attachment) error {
	err := t.lossError()
	s.told.Store(t) // before loss is cleared: lost sets loss and then reads told
	s.loss.Store(false)
	return err
}

// drained, cause and trouble are for the inbox.
func (s *clientSocket) drained(int) {
	if h := s.half.Load(); h != nil && h.cell.Tell.Take() {
		h.t.bell.Ring()
	}
}

func (s *clientSocket) cause() error { return net.ErrClosed }

// begun and missed: every call that waits when the daemon goes fails, not only
// the first to notice.
func (s *clientSocket) begun() uint64 { return s.losses.Load() }

func (s *clientSocket) missed(since uint64) error {
	if s.losses.Load() == since {
		return nil
	}
	s.loss.Store(false)
	return ErrDaemonLost
}

// wait waits for something to receive, and look looks for it.
func (s *clientSocket) wait(ctx context.Context, w *waiter) error {
	if h := s.half.Load(); h != nil {
		return h.t.wait(ctx, w, true)
	}
	return w.wait(ctx)
}

func (s *clientSocket) look() bool {
	h := s.half.Load()
	return h != nil && h.t.catchUp()
}

// trouble is the error of a socket whose daemon has gone.
func (s *clientSocket) trouble() error {
	if s.half.Load() != nil && !s.loss.Load() {
		return nil
	}
	if !s.c.cfg.Reconnect || s.loss.Swap(false) {
		return ErrDaemonLost
	}
	if e := s.failed.Load(); e != nil { // a loss is reported before this error
		return *e
	}
	return nil
}

// session is the half to send on, waiting for one if block is set.
func (s *clientSocket) session(ctx context.Context, block bool) (*half, error) {
	for {
		if s.closed.Load() {
			return nil, net.ErrClosed
		}
		if h := s.living(); h != nil && !s.loss.Load() {
			return h, nil
		}
		if err := s.trouble(); err != nil {
			return nil, err
		}
		if h := s.living(); h != nil {
			return h, nil
		}
		if !block {
			return nil, ErrWouldBlock
		}
		w := s.writers.add()
		err := s.wdl.err()
		if err == nil && s.living() == nil && !s.closed.Load() && s.failed.Load() == nil {
			err = w.wait(ctx)
		}
		s.writers.done(w)
		if err != nil {
			return nil, err
		}
	}
}

// living is the half to send on, nil between the first call that has failed because the
// daemon ended and the next daemon.
func (s *clientSocket) living() *half {
	h := s.half.Load()
	if h != nil && s.told.Load() == h.t {
		return nil
	}
	return h
}

func (s *clientSocket) local() netip.AddrPort { return s.addr }

func (s *clientSocket) remote() netip.AddrPort {
	if to := s.toPort.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

// tell makes a call about this socket.
func (h *half) tell(q ipc.Request) (*ipc.Reply, error) {
	return h.tellWithin(context.Background(), q)
}

func (h *half) tellWithin(ctx context.Context, q ipc.Request) (*ipc.Reply, error) {
	q.Socket = h.id
	return h.t.call(ctx, q)
}

// set makes a call about this socket on the present attachment.
func (s *clientSocket) set(q ipc.Request) error {
	h, err := s.session(context.Background(), false)
	if err == nil {
		_, err = h.tell(q)
	}
	return err
}

func (s *clientSocket) connect(to netip.AddrPort) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if err := checkConnect(s.addr.Addr(), to.Addr()); err != nil {
		return err
	}
	if err := s.set(ipc.Request{Op: ipc.CallConnect, Addr: to}); err != nil {
		return err
	}
	s.toPort.Store(&to)
	return nil
}

func (s *clientSocket) cancel(to netip.AddrPort) error {
	switch {
	case s.closed.Load():
		return net.ErrClosed
	case to.Addr().IsValid() && !unicast(to.Addr()):
		return ErrInvalid
	}
	h, err := s.session(context.Background(), false)
	if err == nil {
		h.collect()
		bytes, messages := h.account.Bytes(), h.account.Messages()
		if _, err = h.tell(ipc.Request{Op: ipc.CallCancel, Addr: to}); err == nil {
			h.memory.keepOff(to)
			h.collect()
			h.canceled(s.addr.Addr(), to.Addr(), bytes-h.account.Bytes(), messages-h.account.Messages())
			s.writers.wake(-1)
		}
	}
	return err
}

func (s *clientSocket) buffers() (send, receive int) {
	return int(s.sndbuf.Load()), int(s.rcvbuf.Load())
}

func (s *clientSocket) setBuffers(send, receive int) error {
	if send > 0 {
		if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionSendBuffer, Value: int64(send)}); err != nil {
			return err
		}
		s.sndbuf.Store(int64(send))
		if h := s.half.Load(); h != nil {
			h.account.SetLimit(send)
		}
		s.writers.wake(-1)
	}
	if receive > 0 {
		if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionReceiveBuffer, Value: int64(receive)}); err != nil {
			return err
		}
		s.rcvbuf.Store(int64(receive))
	}
	return nil
}

func (s *clientSocket) setDeadline(read, write bool, t time.Time) {
	if read {
		s.rdl.set(t, func() { s.readers.wake(-1) })
	}
	if write {
		s.wdl.set(t, s.wakeWriters)
	}
}

// wakeWriters wakes the senders of this socket wherever they wait.
func (s *clientSocket) wakeWriters() {
	s.writers.wake(-1)
	if h := s.half.Load(); h != nil {
		h.t.maps.wake(-1)
		h.t.space.wake(-1)
	}
}

func (s *clientSocket) setMonitor(on bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if on {
		s.monitor.CompareAndSwap(nil, new(monitor))
	} else {
		s.monitor.Store(nil)
	}
	return nil
}

func (s *clientSocket) setRecvErr(on bool) error {
	v := int64(0)
	if on {
		v = 1
	}
	if err := s.set(ipc.Request{Op: ipc.CallOption, Option: ipc.OptionRecvErr, Value: v}); err != nil {
		return err
	}
	s.recvErrOn.Store(on)
	return nil
}

func (s *clientSocket) recvErr() bool             { return s.recvErrOn.Load() }
func (s *clientSocket) setLinger(d time.Duration) { s.linger.Store(int64(d)) }
func (s *clientSocket) tos() uint8                { return uint8(s.tosValue.Load()) }

func (s *clientSocket) setTOS(tos uint8) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if s.sent.Load() || !s.tosValue.CompareAndSwap(0, uint32(tos)|1<<8) {
		return ErrInvalid
	}
	return nil
}

func (s *clientSocket) poll() Events {
	if s.closed.Load() {
		return PollHup
	}
	s.look()
	h := s.half.Load()
	var ev Events
	switch {
	case h != nil && h.hasRoom() && h.t.budget.hasRoom(h.t):
		ev |= PollOut
	case h == nil && (!s.c.cfg.Reconnect || s.failed.Load() != nil):
		ev |= PollIn | PollOut // no call would wait: all calls fail
	}
	if s.fates.n.Load() > 0 || s.q.count.Load() > int64(s.q.unpublished()) || s.loss.Load() {
		ev |= PollIn
	}
	if m := s.monitor.Load(); m != nil {
		m.mu.Lock()
		if m.notify != 0 {
			ev |= PollIn
		}
		m.mu.Unlock()
	} else if h != nil {
		if gen := h.t.table.Maps(); s.news.Swap(gen) != gen {
			ev |= PollIn | PollWrBand
		}
	}
	return ev
}

// alloc returns memory of the send arena, or ordinary memory if that is used
// up, which is copied when it is sent.
func (s *clientSocket) alloc(n int) Message {
	if h := s.half.Load(); h != nil && n > 0 {
		b := h.t.alloc(n)
		if b == nil && h.t.catchUp() {
			b = h.t.alloc(n)
		}
		if b != nil {
			return Message{Data: b.B, buf: &b.Buf}
		}
	}
	return Message{Data: make([]byte, n)}
}

// close ends the socket. The daemon waits for what was sent.
func (s *clientSocket) close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	s.c.forget(s)
	s.readers.wake(-1)
	s.wakeWriters()
	s.setDeadline(true, true, time.Time{})
	s.q.drop() // before the call: after the call the cell may belong to another socket
	h := s.half.Load()
	if h == nil {
		return nil
	}
	h.waits.hide()
	r, err := h.tell(ipc.Request{Op: ipc.CallClose, Linger: time.Duration(s.linger.Load())})
	h.t.unregister(s, h.id)
	h.retire()
	h.memory.keepOff(netip.AddrPort{})
	switch {
	case err != nil:
		return err
	case r.Messages > 0:
		return &DroppedError{Messages: r.Messages, Bytes: r.Bytes}
	}
	return nil
}

func (s *clientSocket) explain(err error) error { return err }
