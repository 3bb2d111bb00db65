package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/afrds"
	"github.com/rds-go/rds/test/interop/peer"
)

// stack is the kernel's RDS.
type stack struct {
	info *afrds.Conn // not bound, for reports
}

var _ peer.Stack = (*stack)(nil)

func (s *stack) Bind(local netip.AddrPort, sendBuffer, receiveBuffer int) (peer.Socket, error) {
	c, err := afrds.Listen(local)
	if err != nil {
		return nil, err
	}
	if err := setBuffers(c, sendBuffer, receiveBuffer); err != nil {
		_ = c.Close()
		return nil, err
	}
	addr, err := c.LocalAddrPort()
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &socket{
		conn:  c,
		local: addr,
		read:  interrupt{set: c.SetReadDeadline},
		write: interrupt{set: c.SetWriteDeadline},
	}, nil
}

func setBuffers(c *afrds.Conn, send, receive int) error {
	var err error
	if send > 0 {
		err = c.SetSendBuffer(send)
	}
	if receive > 0 {
		err = errors.Join(err, c.SetReceiveBuffer(receive))
	}
	return err
}

func (s *stack) Counters() (map[string]uint64, error) {
	list, err := s.info.Counters()
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m, err
}

func (s *stack) State() (any, error) {
	var st struct {
		Connections               []afrds.Connection
		TCP                       []afrds.TCPSocket
		Sockets                   []afrds.SocketInfo
		Send, Retransmit, Receive []afrds.Message
	}
	var errs [6]error
	st.Connections, errs[0] = s.info.Connections()
	st.TCP, errs[1] = s.info.TCPSockets()
	st.Sockets, errs[2] = s.info.Sockets()
	st.Send, errs[3] = s.info.SendQueue()
	st.Retransmit, errs[4] = s.info.RetransmitQueue()
	st.Receive, errs[5] = s.info.ReceiveQueue()
	st.Send, st.Retransmit, st.Receive = first(st.Send), first(st.Retransmit), first(st.Receive)
	return st, errors.Join(errs[:]...)
}

// first returns the head of a queue, enough to see what it waits for.
func first(list []afrds.Message) []afrds.Message { return list[:min(len(list), 20)] }

// Links lists the sockets that paths own: net/rds/tcp.c, rds_tcp_tc_info.
func (s *stack) Links() ([]peer.Link, error) {
	list, err := s.info.TCPSockets()
	links := make([]peer.Link, 0, len(list))
	for _, c := range list {
		links = append(links, peer.Link{Local: c.Local, Remote: c.Remote})
	}
	return links, err
}

// socket is a kernel socket whose calls end with their context.
type socket struct {
	conn        *afrds.Conn
	local       netip.AddrPort
	read, write interrupt
}

var _ peer.Socket = (*socket)(nil)

func (s *socket) LocalAddrPort() netip.AddrPort { return s.local }

func (s *socket) Send(ctx context.Context, to netip.AddrPort, b []byte) error {
	if err := s.write.bind(ctx); err != nil {
		return err
	}
	_, err := s.conn.SendTo(b, to, 0)
	return s.write.cause(err)
}

func (s *socket) TrySend(to netip.AddrPort, b []byte) error {
	_, err := s.conn.SendTo(b, to, afrds.MsgDontWait)
	return err
}

func (s *socket) Recv(ctx context.Context, b []byte) (int, netip.AddrPort, error) {
	if err := s.read.bind(ctx); err != nil {
		return 0, netip.AddrPort{}, err
	}
	for {
		r, err := s.conn.RecvFrom(b, 0)
		if err != nil || r.IsMessage() {
			return r.N, r.From, s.read.cause(err)
		}
	}
}

func (s *socket) SetMonitor(on bool) error { return s.conn.SetCongestionMonitor(on) }

func (s *socket) RecvNews(ctx context.Context) (uint64, error) {
	if err := s.read.bind(ctx); err != nil {
		return 0, err
	}
	r, err := s.conn.RecvFrom(nil, 0)
	switch {
	case err != nil:
		return 0, s.read.cause(err)
	case !r.Control.HasCongestionUpdate:
		return 0, fmt.Errorf("congestion news wanted, got %+v", r)
	}
	return r.Control.CongestionUpdate, nil
}

func (s *socket) Close() error { return s.conn.Close() }

// interrupt ends the calls of one direction when a context ends, by a deadline
// in the past. Successive calls with the same context cost nothing.
type interrupt struct {
	set func(time.Time) error

	mu   sync.Mutex      // guards the fields below and set
	ctx  context.Context // the one watched
	stop func() bool
}

// bind has ctx end the calls that follow.
func (i *interrupt) bind(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx == ctx {
		return nil
	}
	if i.stop != nil {
		i.stop()
	}
	i.ctx = ctx
	if err := i.set(time.Time{}); err != nil {
		return err
	}
	i.stop = context.AfterFunc(ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.ctx == ctx {
			_ = i.set(time.Unix(1, 0)) // fails only on a closed socket, whose calls have ended
		}
	})
	return nil
}

// cause replaces the deadline's error by that of the context behind it.
func (i *interrupt) cause(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return context.Cause(i.ctx)
}
