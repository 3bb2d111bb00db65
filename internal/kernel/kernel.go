package kernel

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
	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/afrds"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/errno"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// Kernel is the provider whose sockets are the Linux kernel's own (AF_RDS).
type Kernel struct{ pool *buf.Pool }

// Open is OpenKernel of package rds.
func Open() (*Kernel, error) {
	if err := afrds.Available(); err != nil {
		return nil, &datagram.OpError{Op: "open", Err: fmt.Errorf("%w: %w", datagram.ErrNoKernel, err)}
	}
	return &Kernel{pool: new(buf.Pool)}, nil
}

// Bind is Kernel.Bind of package rds.
func (k *Kernel) Bind(addr netip.AddrPort) (*socket.Socket, error) {
	addr = address.Unmap(addr)
	var c *afrds.Conn
	var err error
	if addr.Addr().IsValid() {
		err = address.CheckLocal(addr)
	} else {
		err = fmt.Errorf("%w: the kernel does not choose an address: name one of this host's, %s", datagram.ErrInvalid, address.Enumerate(address.OfHost()))
	}
	if err == nil {
		c, err = afrds.Listen(addr)
	}
	if err == nil {
		addr, err = c.LocalAddrPort()
	}
	if err != nil {
		return nil, &datagram.OpError{Op: "bind", Local: addr, Err: explain(err)}
	}
	s := &Socket{k: k, c: c, addr: addr}
	s.linger.Store(int64(config.DefaultLinger))
	return socket.New(s), nil
}

// Close is Kernel.Close of package rds.
func (k *Kernel) Close() error { return nil }

// Info is Kernel.Info of package rds.
func (k *Kernel) Info() (info.Report, error) {
	c, err := afrds.Open()
	if err != nil {
		return info.Report{}, &datagram.OpError{Op: "info", Err: err}
	}
	defer c.Close()
	report := info.Report{Provider: info.ProviderKernel}
	var errs [7]error
	counters, err := c.Counters()
	errs[0] = err
	for _, x := range counters {
		report.Counters = append(report.Counters, transport.Counter{Name: x.Name, Value: x.Value})
	}
	socks, err := c.Sockets()
	errs[1] = err
	for _, x := range socks {
		report.Sockets = append(report.Sockets, info.Socket{Bound: x.Bound, Connected: x.Connected, SendBuffer: int(x.SendBuffer), ReceiveBuf: int(x.ReceiveBuffer), Inode: x.Inode})
	}
	conns, err := c.Connections()
	errs[2] = err
	for _, x := range conns {
		report.Connections = append(report.Connections, info.Connection{
			Local: x.Local, Remote: x.Remote, TOS: x.TOS, Transport: x.Transport, NextTX: x.NextTx, NextRX: x.NextRx,
			Sending: x.Flags&afrds.ConnectionSending != 0, Connecting: x.Flags&afrds.ConnectionConnecting != 0, Connected: x.Flags&afrds.ConnectionConnected != 0,
		})
	}
	queue := func(ms []afrds.Message, err error) ([]info.Queued, error) {
		var out []info.Queued
		for _, x := range ms {
			out = append(out, info.Queued{Local: x.Local, Remote: x.Remote, TOS: x.TOS, Sequence: x.Sequence, Bytes: int(x.Length)})
		}
		return out, err
	}
	report.SendQueue, errs[3] = queue(c.SendQueue())
	report.Retransmit, errs[4] = queue(c.RetransmitQueue())
	report.Receive, errs[5] = queue(c.ReceiveQueue())
	tcps, err := c.TCPSockets()
	errs[6] = err
	for _, x := range tcps {
		report.TCP = append(report.TCP, info.TCP{
			Local: x.Local, Remote: x.Remote, HeaderRemaining: x.HeaderRemaining, PayloadRemaining: x.PayloadRemaining,
			SentNext: uint64(x.LastSentNext), ExpectedUna: uint64(x.LastExpectedUna), SeenUna: uint64(x.LastSeenUna),
		})
	}
	if err := errors.Join(errs[:]...); err != nil {
		return report, &datagram.OpError{Op: "info", Err: err}
	}
	return report, nil
}

// explain makes an error of a system call one of ours too.
func explain(err error) error {
	var (
		code syscall.Errno
		ours *errno.Error
	)
	if errors.As(err, &ours) || !errors.As(err, &code) {
		return err
	}
	if e := socket.ByErrno[code]; e != nil {
		return &socket.ToldError{Text: err.Error(), Err: e}
	}
	return err
}

// Socket is the endpoint over one kernel socket.
type Socket struct {
	socket.NoRDMA
	k    *Kernel
	c    *afrds.Conn
	addr netip.AddrPort
	dest atomic.Pointer[netip.AddrPort]

	linger atomic.Int64

	reads, writes calls

	recvMu   sync.Mutex     // one receiver at a time, because the length is looked at before the data; held without waiting for messages
	statuses []afrds.Status // statuses read and not yet handed out; guarded by recvMu
}

func (s *Socket) Local() netip.AddrPort { return s.addr }

func (s *Socket) Remote() netip.AddrPort {
	if to := s.dest.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

func (s *Socket) Connect(to netip.AddrPort) error {
	if !to.Addr().IsValid() {
		return socket.ErrDestination
	}
	if err := s.c.Connect(to); err != nil {
		return err
	}
	s.dest.Store(&to)
	return nil
}

func (s *Socket) Send(ctx context.Context, o *datagram.Outgoing, block bool) error {
	data := o.Data
	if o.Buffer != nil {
		data = o.Buffer.Data
	}
	if o.Notify || socket.Says(o) {
		return datagram.ErrNotSupported // Linux reports the fate of RDMA operations only, and has none over TCP
	}
	to := address.Unmap(o.To)
	_, err := s.c.SendTo(data, to, afrds.MsgDontWait)
	if block && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS)) {
		err = s.writes.bounded(ctx, s.c.SetWriteDeadline, func() error {
			_, err := s.c.SendTo(data, to, 0)
			return err
		})
	}
	if err == nil && o.Buffer != nil {
		o.Buffer.Release()
		*o.Buffer = datagram.Message{}
	}
	return err
}

func (s *Socket) SendBatch(ctx context.Context, out []datagram.Outgoing, block bool) (int, error) {
	for i := range out {
		if err := s.Send(ctx, &out[i], block); err != nil {
			return i, err
		}
	}
	return len(out), nil
}

func (s *Socket) Recv(ctx context.Context, block, peek bool) (m datagram.Message, err error) {
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
func (s *Socket) receive(peek bool) (datagram.Message, error) {
	for {
		r, err := s.c.RecvFrom(nil, afrds.MsgPeek|afrds.MsgTrunc)
		if err != nil {
			return datagram.Message{}, err
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
func (s *Socket) tryReceive(peek bool) (datagram.Message, error) {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	if len(s.statuses) > 0 {
		return s.status(peek), nil
	}
	r, err := s.c.RecvFrom(nil, afrds.MsgDontWait|afrds.MsgPeek|afrds.MsgTrunc)
	if err != nil {
		return datagram.Message{}, err
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
			return datagram.Message{}, err
		}
		return s.news(&r, peek), nil
	}
	return datagram.Message{Data: data[:r.N], From: r.From, Buf: b}, nil
}

func (s *Socket) news(r *afrds.Received, peek bool) datagram.Message {
	if r.Control.HasCongestionUpdate {
		return datagram.Message{Kind: datagram.KindCongestion, Congestion: r.Control.CongestionUpdate}
	}
	s.statuses = append(s.statuses, r.Control.Statuses...)
	if len(s.statuses) == 0 {
		return datagram.Message{Kind: datagram.KindCongestion}
	}
	return s.status(peek)
}

func (s *Socket) status(peek bool) datagram.Message {
	st := s.statuses[0]
	if !peek {
		s.statuses = s.statuses[1:]
	}
	return datagram.Message{Kind: datagram.KindStatus, Token: st.Token, Status: conn.Status(st.Status)}
}

func (s *Socket) RecvBatch(ctx context.Context, ms []datagram.Message, block bool) (int, error) {
	n := 0
	for n < len(ms) {
		m, err := s.Recv(ctx, block && n == 0, false)
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

func (s *Socket) Cancel(to netip.AddrPort) error {
	if !to.Addr().IsValid() {
		return datagram.ErrInvalid // Linux cannot cancel to all destinations (net/rds/af_rds.c, rds_cancel_sent_to).
	}
	return s.c.CancelSentTo(to)
}

func (s *Socket) Poll() datagram.Events {
	ev, err := s.c.Poll(afrds.PollIn | afrds.PollOut | afrds.PollWriteBand)
	if err != nil {
		return datagram.PollHup
	}
	return datagram.Events(ev)
}

func (s *Socket) SetDeadline(read, write bool, t time.Time) {
	if read {
		s.reads.setDeadline(s.c.SetReadDeadline, t)
	}
	if write {
		s.writes.setDeadline(s.c.SetWriteDeadline, t)
	}
}

func (s *Socket) Buffers() (send, receive int) {
	send, _ = s.c.SendBuffer()
	receive, _ = s.c.ReceiveBuffer()
	return send, receive
}

func (s *Socket) SetBuffers(send, receive int) error {
	var errs [2]error
	if send > 0 {
		errs[0] = s.c.SetSendBuffer(send)
	}
	if receive > 0 {
		errs[1] = s.c.SetReceiveBuffer(receive)
	}
	return errors.Join(errs[:]...)
}

func (s *Socket) SetMonitor(on bool) error { return s.c.SetCongestionMonitor(on) }
func (s *Socket) SetRecvErr(on bool) error { return s.c.SetRecvErr(on) }
func (s *Socket) RecvErr() bool            { on, _ := s.c.RecvErr(); return on }
func (s *Socket) SetTOS(tos uint8) error   { return s.c.SetTOS(tos) }
func (s *Socket) TOS() uint8               { t, _ := s.c.TOS(); return t }

func (s *Socket) Alloc(n int) datagram.Message {
	b := s.k.pool.Get(n)
	return datagram.NewMessage(b.B, b)
}

func (s *Socket) SetLinger(d time.Duration) { s.linger.Store(int64(d)) }

// Close waits for the queues of the socket's port to empty: the kernel itself
// cancels on close what is not acknowledged.
func (s *Socket) Close() error {
	end := time.Now().Add(time.Duration(s.linger.Load()))
	var left datagram.DroppedError
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
func (s *Socket) queued() (d datagram.DroppedError) {
	if s.linger.Load() <= 0 {
		return d
	}
	for _, q := range []func() ([]afrds.Message, error){s.c.SendQueue, s.c.RetransmitQueue} {
		ms, err := q()
		if errors.Is(err, net.ErrClosed) {
			return datagram.DroppedError{}
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

// SetTransport asks the kernel, which refuses to change what Bind has chosen
// (net/rds/af_rds.c, rds_set_transport).
func (s *Socket) SetTransport(w config.Wire) error {
	if w == config.WireXRC {
		return datagram.ErrNoTransport
	}
	have, err := s.c.Transport()
	if err != nil || w == config.WireAuto || have == afrds.TransportTCP {
		return err
	}
	return s.c.SetTransport(afrds.TransportTCP)
}

func (s *Socket) SendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	return s.Send(ctx, &datagram.Outgoing{To: to, Data: data}, block)
}

func (s *Socket) Explain(err error) error { return explain(err) }
