package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Socket is a socket of a Node, the Endpoint of a socket.Socket.
type Socket struct {
	Node *Node
	At   *Local
	Port uint16

	Owner Owner // constant
	keeps bool  // the socket is the keeper of an expected port: no program has it

	socket.Inbox
	Account conn.Account     // bytes and messages of the send buffer in use
	Writers socket.WaitQueue // senders that wait for room in account
	waits   socket.WaitList  // what senders wait for, and since when
	shares  shares           // the parts of account by peer
	Exposed socketRegions
	ops     socketOps

	Congested   atomic.Bool  // our bit is set in la.cong
	congestedAt atomic.Int64 // when congested was last set, in Unix nanoseconds
	dropping    atomic.Bool  // over the hard bound: one log line per episode
	stuck       atomic.Bool  // full for longer than config.Node.ReceiveStall: nothing waits for it any more
	awaited     atomic.Int32 // links that wait for room in this socket

	lastShare atomic.Pointer[share]

	last atomic.Pointer[Peer]        // peer of the last destination; nil while only names a transport
	only atomic.Pointer[config.Wire] // the only wire to send by; nil or WireAuto: any
}

// newSocket makes a socket of this process. Who makes it another's sets its owner before
// anybody else sees it.
func newSocket(n *Node, la *Local) *Socket {
	s := &Socket{Node: n, At: la}
	s.Inbox.Owner, s.Owner = s, (*own)(s)
	s.ReceiveBuffer.Store(int64(n.Config.ReceiveBuffer))
	return s
}

// Drained is for the inbox.
func (s *Socket) Drained(n int) {
	s.Uncongest()
	s.Spare()
	if n > 0 {
		s.Node.Counters.RecvDelivered.Add(uint64(n))
	}
}

func (s *Socket) Trouble(uint64) error { return nil }
func (s *Socket) Lost(uint64) error    { return nil }

func (s *Socket) Wait(ctx context.Context, w *socket.Waiter) error { return w.Wait(ctx) }
func (s *Socket) Look() bool                                       { return false }

func (s *Socket) Begun() uint64            { return 0 }
func (s *Socket) Missed(_, _ uint64) error { return nil }

func (s *Socket) Local() netip.AddrPort { return netip.AddrPortFrom(s.At.Addr, s.Port) }

func (s *Socket) Connect(to netip.AddrPort) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if err := socket.CheckConnect(s.At.Addr, to.Addr()); err != nil {
		return err
	}
	s.ToPort.Store(&to)
	return nil
}

func (s *Socket) Buffers() (send, receive int) {
	return s.Account.Limit(), int(s.ReceiveBuffer.Load())
}

func (s *Socket) SetBuffers(send, receive int) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if send > 0 {
		s.Account.SetLimit(send)
		s.Writers.Wake(-1)
	}
	if receive > 0 {
		s.ReceiveBuffer.Store(int64(receive))
		s.Uncongest()
		s.Spare()
	}
	return nil
}

// WakeWriters wakes the senders of this socket wherever they wait.
func (s *Socket) WakeWriters() {
	s.Writers.Wake(-1)
	s.Node.EachPeer(func(p *Peer) { p.waiters.Wake(-1) })
}

func (s *Socket) SetRecvErr(on bool) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	s.RecvErrOn.Store(on)
	return nil
}

func (s *Socket) SetMonitor(on bool) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if on {
		s.Node.monitored.Store(true)
		s.Monitor.CompareAndSwap(nil, new(socket.Monitor))
		return nil
	}
	if s.Monitor.Swap(nil) != nil && s.setCongested(false) {
		s.At.mark(s) // Linux marks and clears the bit, too
	}
	return nil
}

func (s *Socket) Poll() datagram.Events {
	if s.Closed.Load() {
		return datagram.PollHup
	}
	var ev datagram.Events
	if s.hasRoom() {
		ev |= datagram.PollOut
	}
	return ev | s.PollIn(s.Node.mapGen.Load())
}

// over tells whether what is queued passes a bound of n bytes. Besides the
// payload, which alone Linux counts, it looks at the memory of small messages.
func (s *Socket) over(n int64) bool {
	bytes, count := s.Owner.Waiting()
	return bytes > n || count*socket.ItemCost > n
}

// Congest marks the port when the queue has passed the receive buffer
// (net/rds/recv.c, rds_recv_rcvbuf_delta). It runs on the event loop.
func (s *Socket) Congest() {
	if s.over(s.ReceiveBuffer.Load()) && s.setCongested(true) {
		s.At.mark(s)
		s.Owner.Watch()
		s.Uncongest() // a receiver may have emptied the queue in between
	}
}

// Uncongest clears the bit once less than half the receive buffer is queued.
func (s *Socket) Uncongest() {
	if !s.Congested.Load() {
		return
	}
	if s.halfFull() && (!s.Owner.Rings() || s.halfFull()) { // the second look: what was taken before rings was not rung for
		return
	}
	if s.setCongested(false) {
		s.Owner.Watch()
		s.dropping.Store(false)
		s.At.mark(s)
	}
}

// halfFull tells whether half the receive buffer or more is queued.
func (s *Socket) halfFull() bool {
	half := s.ReceiveBuffer.Load() / 2
	bytes, count := s.Owner.Waiting()
	return bytes >= half && bytes > 0 || count*socket.ItemCost > max(half, socket.ItemCost)
}

// Close unbinds, drops what was received, and waits for what was sent.
func (s *Socket) Close() error {
	if !s.Shut() {
		return net.ErrClosed
	}
	return s.Finish()
}

// Shut is the part of close that does not wait: the regions have ended, and then the
// port is free again. Who gets it next has no message that comes with an operation on
// its predecessor's memory. It tells whether the socket was open.
func (s *Socket) Shut() bool {
	if s.Closed.Swap(true) {
		return false
	}
	s.revoke()
	s.At.unbind(s.Port, s.Node.Leaving.Load())
	s.Node.forget(s)
	s.Node.Counters.RecvDropDead.Add(uint64(s.Queue.Drop()))
	s.At.waiters.ended(s)
	if s.setCongested(false) {
		s.At.mark(s)
	}
	s.Readers.Wake(-1)
	s.WakeWriters()
	s.SetDeadline(true, true, time.Time{})
	return true
}

// Finish waits for what was sent, cancels the rest, and sees to it that nothing
// touches the application's memory any more.
func (s *Socket) Finish() error {
	if d := time.Duration(s.Linger.Load()); d > 0 && s.Account.Messages() > 0 {
		s.awaitAcks(d)
	}
	var dropped datagram.DroppedError
	if s.Account.Messages() > 0 {
		s.Node.EachPeer(func(p *Peer) {
			if p.Local == s.At {
				m, b := p.cancel(s, 0, true)
				dropped.Messages += m
				dropped.Bytes += b
			}
		})
	}
	s.forgetShares()
	err := s.ops.wait(func(*Operation) bool { return true })
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
func (s *Socket) awaitAcks(d time.Duration) {
	s.Account.Watch(1)
	defer s.Account.Watch(-1)
	var late atomic.Bool
	timer := time.AfterFunc(d, func() { late.Store(true); s.Writers.Wake(-1) })
	defer timer.Stop()
	for {
		w := s.Writers.Add()
		s.Node.PollAcks(s.At)
		if s.Account.Messages() == 0 || late.Load() {
			s.Writers.Done(w)
			return
		}
		<-w.C
		s.Writers.Done(w)
	}
}

func (s *Socket) Explain(err error) error { return err }
