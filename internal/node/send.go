package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// check is checkSend with what this socket knows.
func (s *Socket) check(o *datagram.Outgoing) (to netip.AddrPort, err error) {
	to = o.To
	if !to.IsValid() {
		if to, err = socket.DefaultDestination(to, s.ToPort.Load()); err != nil {
			return to, err
		}
	}
	if a := to.Addr(); a.Is4In6() {
		to = netip.AddrPortFrom(a.Unmap(), to.Port())
	}
	if p := s.last.Load(); p == nil || p.Remote != to.Addr() { // the last destination has been checked before
		if err := socket.CheckDestination(s.At.Addr, to.Addr()); err != nil {
			return to, err
		}
	}
	return to, socket.CheckMessage(o, &s.Fates, s.Account.Limit())
}

// peerFor is the connection to a destination.
func (s *Socket) peerFor(a netip.Addr) (*Peer, error) {
	if p := s.last.Load(); p != nil && p.Remote == a {
		return p, nil
	}
	p, err := s.Node.Peer(s.At, a)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	if w := s.wanted(); w != config.WireAuto { // asked for each message, because the wire that serves a peer may change
		if err := s.Admits(a, w); err != nil {
			return nil, err
		}
		s.Share(p) // holds the peer
		return p, nil
	}
	s.Share(p) // holds the peer
	s.last.Store(p)
	if s.wanted() != config.WireAuto {
		s.last.Store(nil) // a wish for a wire came in between: it counts from the next message on
	}
	return p, nil
}

func (s *Socket) Send(ctx context.Context, o *datagram.Outgoing, block bool) error {
	to, err := s.check(o)
	if err != nil {
		return err
	}
	if socket.NeedsRDMA(o) {
		return s.sendSpecial(ctx, o, to, block)
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return err
	}
	h := s.Share(p)
	if err := s.charge(ctx, h, to.Port(), socket.Size(o), block); err != nil {
		return err
	}
	var m conn.Message
	copied := s.prepare(&m, o, h, to.Port())
	return s.submit(ctx, p, &m, o, copied, block)
}

// submit queues a message that has been charged and prepared.
func (s *Socket) submit(ctx context.Context, p *Peer, m *conn.Message, o *datagram.Outgoing, copied, block bool) error {
	scope := socket.WaitScope{List: &s.waits}
	for {
		p.Lock()
		err := p.enqueueLocked(s, m)
		if err == nil {
			p.Commit()
			break
		}
		p.Unlock()
		// While it waits others have the room: a congested port keeps nobody from
		// sending to another one.
		n := m.Size()
		m.Account.Refund(n, 1)
		s.roomed()
		if err = s.pause(ctx, p, m, err, block, &scope); err == nil {
			err = s.charge(ctx, s.Share(p), m.Dport, n, block)
		}
		if err != nil {
			scope.End()
			if copied {
				m.Body.Release()
			}
			return err
		}
	}
	scope.End()
	socket.Accepted(o, m.Body != nil && !copied)
	return nil
}

// prepare makes the core's message of o. Large payloads move to a counted
// buffer outside any lock; copied says that it is a copy.
func (s *Socket) prepare(m *conn.Message, o *datagram.Outgoing, h *share, port uint16) (copied bool) {
	*m = conn.Message{}
	m.Sport, m.Dport, m.Account, m.Notify, m.Failure = s.Port, port, &h.Account, o.Notify, s.RecvErrOn.Load()
	m.Deadline = o.Expires
	if o.Notify {
		m.Token = o.Token
	}
	data := o.Data
	if b := o.Buffer; b != nil {
		if whole(b) {
			m.Body = b.Held()
			m.Body.B = m.Body.B[:len(b.Data)]
			return false
		}
		data = b.Data
	}
	if len(data) <= conn.InlineMax {
		m.Payload = data
		return false
	}
	m.Body = s.Node.Pool.Get(len(data))
	buf.Copy(m.Body.B, data)
	return true
}

func (s *Socket) Alloc(n int) datagram.Message {
	b := s.Node.Pool.Get(n)
	return datagram.NewMessage(b.B, b)
}

// charge takes room in the send buffer for a message of n bytes to a port of the share's
// peer, waiting for room if block is set. Without it a congested port counts before a full
// buffer, as in Linux.
func (s *Socket) charge(ctx context.Context, h *share, port uint16, n int, block bool) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if h.take(n) {
		return nil
	}
	if !block && s.meetsCongestion(h.p, port) {
		return datagram.ErrCongested
	}
	return s.awaitRoom(ctx, h, n, block)
}

// meetsCongestion tells whether the peer's port is congested. Then the send is refused for
// that, and the socket's congestion monitor waits for the port.
func (s *Socket) meetsCongestion(p *Peer, port uint16) bool {
	p.Lock()
	defer p.Unlock()
	if !p.Core.Congested(port) && !p.Core.Held(port) {
		return false
	}
	s.Node.Counters.CongSendError.Add(1)
	s.Refused(port) // under the lock: the map that frees the port comes later, and is news
	return true
}

// awaitRoom is charge where there was no room. It asks for acknowledgements before it
// waits.
func (s *Socket) awaitRoom(ctx context.Context, h *share, n int, block bool) error {
	p := h.p
	s.Node.Counters.SendQueueFull.Add(1)
	p.Push()
	p.PollAcks()
	if h.take(n) {
		return nil
	}
	p.Attempt()
	if !block {
		return datagram.ErrWouldBlock
	}
	scope := socket.WaitScope{List: &s.waits}
	scope.Enter(socket.SenderWait{Cause: info.CauseSendBuffer, Any: true})
	defer scope.End()
	s.Account.Watch(1)
	defer s.Account.Watch(-1)
	for {
		if err := ctx.Err(); err != nil {
			s.roomed() // the wake-up for room may have been meant for another sender
			return err
		}
		down := p.Down.Load()
		if down {
			s.shares.waitDown.Add(1)
		}
		w := s.Writers.Add()
		err := s.WriteDeadline.Err()
		room := false
		switch {
		case s.Closed.Load():
			err = net.ErrClosed
		case p.Barred.Load():
			err = &socket.NotAllowedError{Peer: p.Remote}
		case err == nil && h.take(n):
			room = true
		case err == nil:
			p.Pressed()
			err = w.Wait(ctx)
		}
		s.Writers.Done(w)
		if down {
			s.shares.waitDown.Add(-1)
		}
		if room {
			if s.Writers.N.Load() > 0 && s.hasRoom() {
				s.roomed()
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Attempt has a peer that is down connected, also when no message for it was taken.
func (p *Peer) Attempt() {
	if !p.Down.Load() {
		return
	}
	p.Lock()
	if !p.Gone() {
		p.Core.Connect(time.Now())
		p.Arm()
	}
	p.Commit()
}

// pause waits for what refused a message to change: a congestion map, or the
// peer's budget. It returns nil to try again.
func (s *Socket) pause(ctx context.Context, p *Peer, m *conn.Message, cause error, block bool, scope *socket.WaitScope) error {
	congested := errors.Is(cause, conn.ErrCongested)
	switch {
	case errors.Is(cause, conn.ErrClosed):
		return net.ErrClosed
	case errors.Is(cause, conn.ErrBarred):
		return &socket.NotAllowedError{Peer: p.Remote}
	case errors.Is(cause, conn.ErrTooLong):
		s.Node.Counters.sendTooLong.Add(1)
		return &datagram.MessageTooLongError{Peer: p.Remote, Size: m.Size(), Limit: p.longestNow()}
	case errors.Is(cause, datagram.ErrNotSupported):
		return cause
	case congested && !block:
		s.Node.Counters.CongSendError.Add(1)
		s.Refused(m.Dport)
		if s.Monitor.Load() != nil && p.takes(m.Dport) { // a map opened the port before the refusal was noted, and told nobody
			s.CongestionNews()
		}
		return datagram.ErrCongested
	case !block:
		s.Node.Counters.SendQueueFull.Add(1)
		return datagram.ErrWouldBlock
	case congested:
		s.Node.Counters.CongSendBlocked.Add(1)
		scope.Enter(socket.SenderWait{Cause: info.CauseCongested, Peer: p.Index, Port: m.Dport})
	default:
		scope.Enter(socket.SenderWait{Cause: info.CauseBudget, Peer: p.Index})
	}
	p.Push()
	w := p.waiters.Add()
	defer p.waiters.Done(w)
	switch {
	case p.takes(m.Dport):
		return nil
	case s.Closed.Load() || p.Gone():
		return net.ErrClosed
	}
	if err := s.WriteDeadline.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.Pressed()
	if err := w.Wait(ctx); err != nil {
		return err
	}
	if s.Closed.Load() {
		return net.ErrClosed
	}
	return s.WriteDeadline.Err()
}

// longestNow is the longest payload that the peer takes.
func (p *Peer) longestNow() int {
	p.Lock()
	defer p.Unlock()
	return p.Core.Longest().Octets()
}

// takes tells whether a port of the peer takes messages.
func (p *Peer) takes(port uint16) bool {
	p.Lock()
	defer p.Unlock()
	return p.Core.Admits(port)
}

// SendBatch takes the connection's lock once for a run of messages to one host.
func (s *Socket) SendBatch(ctx context.Context, out []datagram.Outgoing, block bool) (int, error) {
	n := 0
	for n < len(out) {
		run, err := s.sendRun(out[n:])
		n += run
		switch {
		case err == nil:
			continue
		case n == len(out):
			return n, nil
		}
		if err := socket.SendWithin(ctx, s, &out[n], block); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

var errRun = errors.New("rds: end of the run")

// sendRun sends leading messages as long as that needs no waiting, then
// returns how many and errRun, for send to judge the next one.
func (s *Socket) sendRun(out []datagram.Outgoing) (int, error) {
	to, err := s.check(&out[0])
	if err != nil || s.Closed.Load() {
		return 0, errRun
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return 0, errRun
	}
	limit := min(len(out), 1024)
	h := s.Share(p)
	var m conn.Message
	n := 0
	p.Lock()
	for ; n < limit; n++ {
		o := &out[n]
		size := socket.Size(o)
		if n > 0 {
			if to, err = s.check(o); err != nil || to.Addr() != p.Remote {
				break
			}
		}
		special := socket.NeedsRDMA(o)
		if special && !s.sendsLocked(p, o) || size > conn.InlineMax && (o.Buffer == nil || !whole(o.Buffer)) || !h.take(size) {
			break
		}
		s.prepare(&m, o, h, to.Port())
		if special {
			s.Extend(&m, p, newOperation(s, p, o, to.Port()), wire.Memory{HasDest: o.HasDest, Dest: uint64(o.Dest)})
		}
		if p.enqueueLocked(s, &m) != nil {
			m.Account.Refund(size, 1)
			break
		}
		socket.Accepted(o, m.Body != nil)
	}
	if n > 0 {
		p.Commit()
	} else {
		p.Unlock()
	}
	if n == len(out) {
		return n, nil
	}
	return n, errRun
}

// Cancel is RDS_CANCEL_SENT_TO.
func (s *Socket) Cancel(to netip.AddrPort) error {
	if err := s.Unsend(to); err != nil {
		return err
	}
	return s.AwaitMemory(to)
}

// Unsend is the part of cancel that does not wait.
func (s *Socket) Unsend(to netip.AddrPort) error {
	if s.Closed.Load() {
		return net.ErrClosed
	}
	if to.Addr().IsValid() && !address.Unicast(to.Addr()) {
		return datagram.ErrInvalid
	}
	all := !to.Addr().IsValid()
	s.Node.EachPeer(func(p *Peer) {
		if p.Local == s.At && (all || p.Remote == to.Addr()) {
			p.cancel(s, to.Port(), all)
		}
	})
	s.Writers.Wake(-1)
	return nil
}

// AwaitMemory is the rest of it: what operations to the destination had of the
// application is its own again.
func (s *Socket) AwaitMemory(to netip.AddrPort) error {
	all := !to.Addr().IsValid()
	return s.ops.wait(func(op *Operation) bool {
		return all || op.Peer.Remote == to.Addr() && op.Dport == to.Port()
	})
}

// whole tells whether a message's data starts at the start of a buffer that
// nobody shares and is too large to be copied behind a header.
func whole(m *datagram.Message) bool {
	b := m.Held()
	return b != nil && len(m.Data) > conn.InlineMax && b.Sole() && &m.Data[0] == &b.B[0]
}

func (s *Socket) SendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	return s.Send(ctx, &datagram.Outgoing{To: to, Data: data}, block)
}
