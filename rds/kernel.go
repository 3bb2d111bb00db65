package rds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/afrds"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/errno"
	"github.com/rds-go/rds/transport"
)

// Kernel is the provider whose sockets are the Linux kernel's own (AF_RDS).
type Kernel struct{ pool *buf.Pool }

// OpenKernel returns the kernel provider, or an error that is ErrNoKernel where
// the kernel has no RDS.
func OpenKernel() (*Kernel, error) {
	if err := afrds.Available(); err != nil {
		return nil, &OpError{Op: "open", Err: fmt.Errorf("%w: %w", ErrNoKernel, err)}
	}
	return &Kernel{pool: new(buf.Pool)}, nil
}

// Bind makes a kernel socket bound to addr.
func (k *Kernel) Bind(addr netip.AddrPort) (*Socket, error) {
	addr = unmap(addr)
	var c *afrds.Conn
	var err error
	if addr.Addr().IsValid() {
		err = checkLocal(addr)
	} else {
		err = fmt.Errorf("%w: the kernel does not choose an address: name one of this host's, %s", ErrInvalid, enumerate(hostAddresses()))
	}
	if err == nil {
		c, err = afrds.Listen(addr)
	}
	if err == nil {
		addr, err = c.LocalAddrPort()
	}
	if err != nil {
		return nil, &OpError{Op: "bind", Local: addr, Err: kernelError(err)}
	}
	s := &kernelSocket{k: k, c: c, addr: addr}
	s.linger.Store(int64(DefaultLinger))
	return newSocket(s), nil
}

// Close does nothing: kernel sockets are closed one by one.
func (k *Kernel) Close() error { return nil }

// Info reports what rds-info reports.
func (k *Kernel) Info() (Info, error) {
	c, err := afrds.Open()
	if err != nil {
		return Info{}, &OpError{Op: "info", Err: err}
	}
	defer c.Close()
	info := Info{Provider: ProviderKernel}
	var errs [7]error
	counters, err := c.Counters()
	errs[0] = err
	for _, x := range counters {
		info.Counters = append(info.Counters, transport.Counter{Name: x.Name, Value: x.Value})
	}
	socks, err := c.Sockets()
	errs[1] = err
	for _, x := range socks {
		info.Sockets = append(info.Sockets, SocketInfo{Bound: x.Bound, Connected: x.Connected, SendBuffer: int(x.SendBuffer), ReceiveBuf: int(x.ReceiveBuffer), Inode: x.Inode})
	}
	conns, err := c.Connections()
	errs[2] = err
	for _, x := range conns {
		info.Connections = append(info.Connections, ConnectionInfo{
			Local: x.Local, Remote: x.Remote, TOS: x.TOS, Transport: x.Transport, NextTX: x.NextTx, NextRX: x.NextRx,
			Sending: x.Flags&afrds.ConnectionSending != 0, Connecting: x.Flags&afrds.ConnectionConnecting != 0, Connected: x.Flags&afrds.ConnectionConnected != 0,
		})
	}
	queue := func(ms []afrds.Message, err error) ([]QueuedInfo, error) {
		var out []QueuedInfo
		for _, x := range ms {
			out = append(out, QueuedInfo{Local: x.Local, Remote: x.Remote, TOS: x.TOS, Sequence: x.Sequence, Bytes: int(x.Length)})
		}
		return out, err
	}
	info.SendQueue, errs[3] = queue(c.SendQueue())
	info.Retransmit, errs[4] = queue(c.RetransmitQueue())
	info.Receive, errs[5] = queue(c.ReceiveQueue())
	tcps, err := c.TCPSockets()
	errs[6] = err
	for _, x := range tcps {
		info.TCP = append(info.TCP, TCPInfo{
			Local: x.Local, Remote: x.Remote, HeaderRemaining: x.HeaderRemaining, PayloadRemaining: x.PayloadRemaining,
			SentNext: uint64(x.LastSentNext), ExpectedUna: uint64(x.LastExpectedUna), SeenUna: uint64(x.LastSeenUna),
		})
	}
	if err := errors.Join(errs[:]...); err != nil {
		return info, &OpError{Op: "info", Err: err}
	}
	return info, nil
}

// kernelError makes an error of a system call one of ours too.
func kernelError(err error) error {
	var (
		code syscall.Errno
		ours *errno.Error
	)
	if errors.As(err, &ours) || !errors.As(err, &code) {
		return err
	}
	if e := errnoErrors[code]; e != nil {
		return &toldError{err.Error(), e}
	}
	return err
}

// kernelSocket is the endpoint over one kernel socket.
type kernelSocket struct {
	noRDMA
	k    *Kernel
	c    *afrds.Conn
	addr netip.AddrPort
	dest atomic.Pointer[netip.AddrPort]

	linger atomic.Int64

	reads, writes kernelCalls

	recvMu   sync.Mutex     // one receiver at a time, because the length is looked at before the data; held without waiting for messages
	statuses []afrds.Status // statuses read and not yet handed out; guarded by recvMu
}

func (s *kernelSocket) local() netip.AddrPort { return s.addr }

func (s *kernelSocket) remote() netip.AddrPort {
	if to := s.dest.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

func (s *kernelSocket) connect(to netip.AddrPort) error {
	if !to.Addr().IsValid() {
		return errDestination
	}
	if err := s.c.Connect(to); err != nil {
		return err
	}
	s.dest.Store(&to)
	return nil
}

func (s *kernelSocket) send(ctx context.Context, o *Outgoing, block bool) error {
	data := o.Data
	if o.Buffer != nil {
		data = o.Buffer.Data
	}
	if o.Notify || says(o) {
		return ErrNotSupported // Linux reports the fate of RDMA operations only, and has none over TCP
	}
	to := unmap(o.To)
	_, err := s.c.SendTo(data, to, afrds.MsgDontWait)
	if block && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS)) {
		err = s.writes.bounded(ctx, s.c.SetWriteDeadline, func() error {
			_, err := s.c.SendTo(data, to, 0)
			return err
		})
	}
	if err == nil && o.Buffer != nil {
		o.Buffer.Release()
		*o.Buffer = Message{}
	}
	return err
}

func (s *kernelSocket) sendBatch(ctx context.Context, out []Outgoing, block bool) (int, error) {
	for i := range out {
		if err := s.send(ctx, &out[i], block); err != nil {
			return i, err
		}
	}
	return len(out), nil
}

func (s *kernelSocket) recv(ctx context.Context, block, peek bool) (m Message, err error) {
	m, err = s.tryReceive(peek)
	if !block || !errors.Is(err, syscall.EAGAIN) {
		return m, err
	}
	err = s.reads.bounded(ctx, s.c.SetReadDeadline, func() error {
		m, err = s.receive(peek)
		return err
	})
	return m, err
}

// receive waits for the next message and takes it.
func (s *kernelSocket) receive(peek bool) (Message, error) {
	for {
		r, err := s.c.RecvFrom(nil, afrds.MsgPeek|afrds.MsgTrunc)
		if err != nil {
			return Message{}, err
		}
		if !r.IsMessage() { // notifications are taken even by a peek
			s.recvMu.Lock()
			defer s.recvMu.Unlock()
			return s.news(&r, peek), nil
		}
		if m, err := s.tryReceive(peek); !errors.Is(err, syscall.EAGAIN) {
			return m, err
		}
	}
}

// tryReceive asks for the length of the next message, then takes it.
func (s *kernelSocket) tryReceive(peek bool) (Message, error) {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	if len(s.statuses) > 0 {
		return s.status(peek), nil
	}
	r, err := s.c.RecvFrom(nil, afrds.MsgDontWait|afrds.MsgPeek|afrds.MsgTrunc)
	if err != nil {
		return Message{}, err
	}
	if !r.IsMessage() {
		return s.news(&r, peek), nil
	}
	var b *buf.Buf
	var data []byte
	if r.N > 0 {
		b = s.k.pool.Get(r.N)
		data = b.B
	}
	flags := afrds.MsgDontWait
	if peek {
		flags |= afrds.MsgPeek
	}
	if r, err = s.c.RecvFrom(data, flags); err != nil || !r.IsMessage() {
		if b != nil {
			b.Release()
		}
		if err != nil {
			return Message{}, err
		}
		return s.news(&r, peek), nil
	}
	return Message{Data: data[:r.N], From: r.From, buf: b}, nil
}

func (s *kernelSocket) news(r *afrds.Received, peek bool) Message {
	if r.Control.HasCongestionUpdate {
		return Message{Kind: KindCongestion, Congestion: r.Control.CongestionUpdate}
	}
	s.statuses = append(s.statuses, r.Control.Statuses...)
	if len(s.statuses) == 0 {
		return Message{Kind: KindCongestion}
	}
	return s.status(peek)
}

func (s *kernelSocket) status(peek bool) Message {
	st := s.statuses[0]
	if !peek {
		s.statuses = s.statuses[1:]
	}
	return Message{Kind: KindStatus, Token: st.Token, Status: conn.Status(st.Status)}
}

func (s *kernelSocket) recvBatch(ctx context.Context, ms []Message, block bool) (int, error) {
	n := 0
	for n < len(ms) {
		m, err := s.recv(ctx, block && n == 0, false)
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		ms[n] = m
		n++
	}
	return n, nil
}

func (s *kernelSocket) cancel(to netip.AddrPort) error {
	if !to.Addr().IsValid() {
		return ErrInvalid // Linux cannot cancel to all destinations (net/rds/af_rds.c, rds_cancel_sent_to).
	}
	return s.c.CancelSentTo(to)
}

func (s *kernelSocket) poll() Events {
	ev, err := s.c.Poll(afrds.PollIn | afrds.PollOut | afrds.PollWriteBand)
	if err != nil {
		return PollHup
	}
	return Events(ev)
}

func (s *kernelSocket) setDeadline(read, write bool, t time.Time) {
	if read {
		s.reads.setDeadline(s.c.SetReadDeadline, t)
	}
	if write {
		s.writes.setDeadline(s.c.SetWriteDeadline, t)
	}
}

func (s *kernelSocket) buffers() (send, receive int) {
	send, _ = s.c.SendBuffer()
	receive, _ = s.c.ReceiveBuffer()
	return send, receive
}

func (s *kernelSocket) setBuffers(send, receive int) error {
	var errs [2]error
	if send > 0 {
		errs[0] = s.c.SetSendBuffer(send)
	}
	if receive > 0 {
		errs[1] = s.c.SetReceiveBuffer(receive)
	}
	return errors.Join(errs[:]...)
}

func (s *kernelSocket) setMonitor(on bool) error { return s.c.SetCongestionMonitor(on) }
func (s *kernelSocket) setRecvErr(on bool) error { return s.c.SetRecvErr(on) }
func (s *kernelSocket) recvErr() bool            { on, _ := s.c.RecvErr(); return on }
func (s *kernelSocket) setTOS(tos uint8) error   { return s.c.SetTOS(tos) }
func (s *kernelSocket) tos() uint8               { t, _ := s.c.TOS(); return t }

func (s *kernelSocket) alloc(n int) Message {
	b := s.k.pool.Get(n)
	return NewMessage(b.B, b)
}

func (s *kernelSocket) setLinger(d time.Duration) { s.linger.Store(int64(d)) }

// close waits for the queues of the socket's port to empty: the kernel itself
// cancels on close what is not acknowledged.
func (s *kernelSocket) close() error {
	end := time.Now().Add(time.Duration(s.linger.Load()))
	var left DroppedError
	for {
		left = s.queued()
		if left.Messages == 0 || !time.Now().Before(end) {
			break
		}
		time.Sleep(2 * time.Millisecond) // the kernel gives no event for this
	}
	if err := s.c.Close(); err != nil {
		return err
	}
	if left.Messages > 0 {
		return &left
	}
	return nil
}

// queued counts the messages of this socket's port in the kernel's queues.
// Linux 6.1 reports IPv4 addresses there as zero, so sockets of other local
// addresses with the same port count too: waiting too long is harmless.
func (s *kernelSocket) queued() (d DroppedError) {
	if s.linger.Load() <= 0 {
		return d
	}
	for _, q := range []func() ([]afrds.Message, error){s.c.SendQueue, s.c.RetransmitQueue} {
		ms, err := q()
		if errors.Is(err, net.ErrClosed) {
			return DroppedError{}
		}
		for _, m := range ms {
			if m.Local.Port() == s.addr.Port() {
				d.Messages++
				d.Bytes += int(m.Length)
			}
		}
	}
	return d
}

// setTransport asks the kernel, which refuses to change what Bind has chosen
// (net/rds/af_rds.c, rds_set_transport).
func (s *kernelSocket) setTransport(w Wire) error {
	if w == WireXRC {
		return ErrNoTransport
	}
	have, err := s.c.Transport()
	if err != nil || w == WireAuto || have == afrds.TransportTCP {
		return err
	}
	return s.c.SetTransport(afrds.TransportTCP)
}

func (s *kernelSocket) sendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	return s.send(ctx, &Outgoing{To: to, Data: data}, block)
}

func (s *kernelSocket) explain(err error) error { return kernelError(err) }
