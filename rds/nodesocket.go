package rds

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
)

// nodeSocket is a socket of a Node: the endpoint behind a Socket.
type nodeSocket struct {
	node *Node
	la   *localAddr
	port uint16

	owner owner // constant
	keeps bool  // the socket is the keeper of an expected port: no program has it

	inbox
	account conn.Account // bytes and messages of the send buffer in use
	writers waitQueue    // senders that wait for room in account
	waits   waitList     // what senders wait for, and since when
	shares  shares       // the parts of account by peer
	wdl     deadline
	exposed socketRegions
	ops     socketOps

	congested   atomic.Bool  // our bit is set in la.cong
	congestedAt atomic.Int64 // when congested was last set, in Unix nanoseconds
	dropping    atomic.Bool  // over the hard bound: one log line per episode
	stuck       atomic.Bool  // full for longer than Config.ReceiveStall: nothing waits for it any more
	awaited     atomic.Int32 // links that wait for room in this socket

	lastShare atomic.Pointer[share]

	last   atomic.Pointer[peer] // peer of the last destination; nil while only names a transport
	only   atomic.Pointer[Wire] // the only wire to send by; nil or WireAuto: any
	toPort atomic.Pointer[netip.AddrPort]
	linger atomic.Int64 // nanoseconds; 0 or less: none

	recvErrOn atomic.Bool
	tosValue  atomic.Uint32 // value + 1<<8 once set
	sent      atomic.Bool   // a send has fixed the TOS
	news      atomic.Uint64 // congestion generation last polled
}

// newNodeSocket makes a socket of this process. Who makes it another's sets its owner before
// anybody else sees it.
func newNodeSocket(n *Node, la *localAddr) *nodeSocket {
	s := &nodeSocket{node: n, la: la}
	s.inbox.owner, s.owner = s, (*own)(s)
	s.rcvbuf.Store(int64(n.cfg.ReceiveBuffer))
	return s
}

// drained and cause are for the inbox.
func (s *nodeSocket) drained(n int) {
	s.uncongest()
	s.spare()
	if n > 0 {
		s.node.counters.recvDelivered.Add(uint64(n))
	}
}

func (s *nodeSocket) cause() error   { return net.ErrClosed }
func (s *nodeSocket) trouble() error { return nil }

func (s *nodeSocket) wait(ctx context.Context, w *waiter) error { return w.wait(ctx) }
func (s *nodeSocket) look() bool                                { return false }

func (s *nodeSocket) begun() uint64       { return 0 }
func (s *nodeSocket) missed(uint64) error { return nil }

func (s *nodeSocket) local() netip.AddrPort { return netip.AddrPortFrom(s.la.addr, s.port) }

func (s *nodeSocket) remote() netip.AddrPort {
	if to := s.toPort.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

func (s *nodeSocket) connect(to netip.AddrPort) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if err := checkConnect(s.la.addr, to.Addr()); err != nil {
		return err
	}
	s.toPort.Store(&to)
	return nil
}

func (s *nodeSocket) buffers() (send, receive int) {
	return s.account.Limit(), int(s.rcvbuf.Load())
}

func (s *nodeSocket) setBuffers(send, receive int) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if send > 0 {
		s.account.SetLimit(send)
		s.writers.wake(-1)
	}
	if receive > 0 {
		s.rcvbuf.Store(int64(receive))
		s.uncongest()
		s.spare()
	}
	return nil
}

func (s *nodeSocket) setDeadline(read, write bool, t time.Time) {
	if read {
		s.rdl.set(t, func() { s.readers.wake(-1) })
	}
	if write {
		s.wdl.set(t, s.wakeWriters)
	}
}

// wakeWriters wakes the senders of this socket wherever they wait.
func (s *nodeSocket) wakeWriters() {
	s.writers.wake(-1)
	s.node.eachPeer(func(p *peer) { p.waiters.wake(-1) })
}

func (s *nodeSocket) setRecvErr(on bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	s.recvErrOn.Store(on)
	return nil
}

func (s *nodeSocket) recvErr() bool             { return s.recvErrOn.Load() }
func (s *nodeSocket) setLinger(d time.Duration) { s.linger.Store(int64(d)) }
func (s *nodeSocket) tos() uint8                { return uint8(s.tosValue.Load()) }

// setTOS accepts what Linux accepts: once, before anything was sent. TCP maps
// every value to 0 (net/rds/tcp.c, rds_tcp_get_tos_map).
func (s *nodeSocket) setTOS(tos uint8) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if s.sent.Load() || !s.tosValue.CompareAndSwap(0, uint32(tos)|1<<8) {
		return ErrInvalid
	}
	return nil
}

func (s *nodeSocket) setMonitor(on bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if on {
		s.node.monitored.Store(true)
		s.monitor.CompareAndSwap(nil, new(monitor))
		return nil
	}
	if s.monitor.Swap(nil) != nil && s.setCongested(false) {
		s.la.mark(s) // Linux marks and clears the bit, too
	}
	return nil
}

func (s *nodeSocket) poll() Events {
	if s.closed.Load() {
		return PollHup
	}
	var ev Events
	if s.hasRoom() {
		ev |= PollOut
	}
	if s.fates.n.Load() > 0 || s.q.count.Load() > int64(s.q.unpublished()) {
		ev |= PollIn
	}
	if m := s.monitor.Load(); m != nil {
		m.mu.Lock()
		if m.notify != 0 {
			ev |= PollIn
		}
		m.mu.Unlock()
	} else if gen := s.node.mapGen.Load(); s.news.Swap(gen) != gen {
		ev |= PollIn | PollWrBand
	}
	return ev
}

// over tells whether what is queued passes a bound of n bytes. Besides the
// payload, which alone Linux counts, it looks at the memory of small messages.
func (s *nodeSocket) over(n int64) bool {
	bytes, count := s.owner.waiting()
	return bytes > n || count*itemCost > n
}

// congest marks the port when the queue has passed the receive buffer
// (net/rds/recv.c, rds_recv_rcvbuf_delta). It runs on the event loop.
func (s *nodeSocket) congest() {
	if s.over(s.rcvbuf.Load()) && s.setCongested(true) {
		s.la.mark(s)
		s.owner.watch()
		s.uncongest() // a receiver may have emptied the queue in between
	}
}

// uncongest clears the bit once less than half the receive buffer is queued.
func (s *nodeSocket) uncongest() {
	if !s.congested.Load() {
		return
	}
	if s.halfFull() && (!s.owner.rings() || s.halfFull()) { // the second look: what was taken before rings was not rung for
		return
	}
	if s.setCongested(false) {
		s.owner.watch()
		s.dropping.Store(false)
		s.la.mark(s)
	}
}

// halfFull tells whether half the receive buffer or more is queued.
func (s *nodeSocket) halfFull() bool {
	half := s.rcvbuf.Load() / 2
	bytes, count := s.owner.waiting()
	return bytes >= half && bytes > 0 || count*itemCost > max(half, itemCost)
}

// close unbinds, drops what was received, and waits for what was sent.
func (s *nodeSocket) close() error {
	if !s.shut() {
		return net.ErrClosed
	}
	return s.finish()
}

// shut is the part of close that does not wait: the regions have ended, and then the
// port is free again. Who gets it next has no message that comes with an operation on
// its predecessor's memory. It tells whether the socket was open.
func (s *nodeSocket) shut() bool {
	if s.closed.Swap(true) {
		return false
	}
	s.revoke()
	s.la.unbind(s.port, s.node.leaving.Load())
	s.node.forget(s)
	s.node.counters.recvDropDead.Add(uint64(s.q.drop()))
	s.la.waiters.ended(s)
	if s.setCongested(false) {
		s.la.mark(s)
	}
	s.readers.wake(-1)
	s.wakeWriters()
	s.setDeadline(true, true, time.Time{})
	return true
}

// finish waits for what was sent, cancels the rest, and sees to it that nothing
// touches the application's memory any more.
func (s *nodeSocket) finish() error {
	if d := time.Duration(s.linger.Load()); d > 0 && s.account.Messages() > 0 {
		s.awaitAcks(d)
	}
	var dropped DroppedError
	if s.account.Messages() > 0 {
		s.node.eachPeer(func(p *peer) {
			if p.local == s.la {
				m, b := p.cancel(s, 0, true)
				dropped.Messages += m
				dropped.Bytes += b
			}
		})
	}
	s.forgetShares()
	err := s.ops.wait(func(*operation) bool { return true })
	if e := s.unexpose(); e != nil {
		err = e
	}
	switch {
	case dropped.Messages == 0:
		return err
	case err == nil:
		return &dropped
	}
	return fmt.Errorf("%w; %w", &dropped, err)
}

// awaitAcks waits until everything sent is acknowledged, at most d.
func (s *nodeSocket) awaitAcks(d time.Duration) {
	s.account.Watch(1)
	defer s.account.Watch(-1)
	var late atomic.Bool
	timer := time.AfterFunc(d, func() { late.Store(true); s.writers.wake(-1) })
	defer timer.Stop()
	for {
		w := s.writers.add()
		s.node.pollAcks(s.la)
		if s.account.Messages() == 0 || late.Load() {
			s.writers.done(w)
			return
		}
		<-w.c
		s.writers.done(w)
	}
}

func (s *nodeSocket) explain(err error) error { return err }
