package rds

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// check is checkSend with what this socket knows.
func (s *nodeSocket) check(o *Outgoing) (to netip.AddrPort, err error) {
	to = o.To
	if !to.IsValid() {
		if to, err = defaultDestination(to, s.toPort.Load()); err != nil {
			return to, err
		}
	}
	if a := to.Addr(); a.Is4In6() {
		to = netip.AddrPortFrom(a.Unmap(), to.Port())
	}
	if p := s.last.Load(); p == nil || p.remote != to.Addr() { // the last destination has been checked before
		if err := checkDestination(s.la.addr, to.Addr()); err != nil {
			return to, err
		}
	}
	return to, checkMessage(o, &s.fates, s.account.Limit())
}

// peerFor is the connection to a destination.
func (s *nodeSocket) peerFor(a netip.Addr) (*peer, error) {
	if p := s.last.Load(); p != nil && p.remote == a {
		return p, nil
	}
	p, err := s.node.peer(s.la, a)
	if err != nil {
		return nil, err
	}
	defer p.release()
	if w := s.wanted(); w != WireAuto { // asked for each message, because the wire that serves a peer may change
		if err := s.admits(a, w); err != nil {
			return nil, err
		}
		s.share(p) // holds the peer
		return p, nil
	}
	s.share(p) // holds the peer
	s.last.Store(p)
	if s.wanted() != WireAuto {
		s.last.Store(nil) // a wish for a wire came in between: it counts from the next message on
	}
	return p, nil
}

func (s *nodeSocket) send(ctx context.Context, o *Outgoing, block bool) error {
	to, err := s.check(o)
	if err != nil {
		return err
	}
	if needsRDMA(o) {
		return s.sendSpecial(ctx, o, to, block)
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return err
	}
	h := s.share(p)
	if err := s.charge(ctx, h, to.Port(), size(o), block); err != nil {
		return err
	}
	var m conn.Message
	copied := s.prepare(&m, o, h, to.Port())
	return s.submit(ctx, p, &m, o, copied, block)
}

// submit queues a message that has been charged and prepared.
func (s *nodeSocket) submit(ctx context.Context, p *peer, m *conn.Message, o *Outgoing, copied, block bool) error {
	scope := waitScope{list: &s.waits}
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
			err = s.charge(ctx, s.share(p), m.Dport, n, block)
		}
		if err != nil {
			scope.end()
			if copied {
				m.Body.Release()
			}
			return err
		}
	}
	scope.end()
	accepted(o, m.Body != nil && !copied)
	return nil
}

// prepare makes the core's message of o. Large payloads move to a counted
// buffer outside any lock; copied says that it is a copy.
func (s *nodeSocket) prepare(m *conn.Message, o *Outgoing, h *share, port uint16) (copied bool) {
	*m = conn.Message{}
	m.Sport, m.Dport, m.Account, m.Notify, m.Failure = s.port, port, &h.Account, o.Notify, s.recvErrOn.Load()
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
	m.Body = s.node.pool.Get(len(data))
	buf.Copy(m.Body.B, data)
	return true
}

func (s *nodeSocket) alloc(n int) Message {
	b := s.node.pool.Get(n)
	return NewMessage(b.B, b)
}

// charge takes room in the send buffer for a message of n bytes to a port of the share's
// peer, waiting for room if block is set. Without it a congested port counts before a full
// buffer, as in Linux.
func (s *nodeSocket) charge(ctx context.Context, h *share, port uint16, n int, block bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if h.take(n) {
		return nil
	}
	if !block && s.meetsCongestion(h.p, port) {
		return ErrCongested
	}
	return s.awaitRoom(ctx, h, n, block)
}

// meetsCongestion tells whether the peer's port is congested. Then the send is refused for
// that, and the socket's congestion monitor waits for the port.
func (s *nodeSocket) meetsCongestion(p *peer, port uint16) bool {
	p.Lock()
	defer p.Unlock()
	if !p.Core.Congested(port) && !p.Core.Held(port) {
		return false
	}
	s.node.counters.congSendError.Add(1)
	s.refused(port) // under the lock: the map that frees the port comes later, and is news
	return true
}

// awaitRoom is charge where there was no room. It asks for acknowledgements before it
// waits.
func (s *nodeSocket) awaitRoom(ctx context.Context, h *share, n int, block bool) error {
	p := h.p
	s.node.counters.sendQueueFull.Add(1)
	p.Push()
	p.PollAcks()
	if h.take(n) {
		return nil
	}
	p.attempt()
	if !block {
		return ErrWouldBlock
	}
	scope := waitScope{list: &s.waits}
	scope.enter(senderWait{cause: CauseSendBuffer, any: true})
	defer scope.end()
	s.account.Watch(1)
	defer s.account.Watch(-1)
	for {
		if err := ctx.Err(); err != nil {
			s.roomed() // the wake-up for room may have been meant for another sender
			return err
		}
		down := p.down.Load()
		if down {
			s.shares.waitDown.Add(1)
		}
		w := s.writers.add()
		err := s.wdl.err()
		room := false
		switch {
		case s.closed.Load():
			err = net.ErrClosed
		case p.barred.Load():
			err = &notAllowedError{p.remote}
		case err == nil && h.take(n):
			room = true
		case err == nil:
			p.Pressed()
			err = w.wait(ctx)
		}
		s.writers.done(w)
		if down {
			s.shares.waitDown.Add(-1)
		}
		if room {
			if s.writers.n.Load() > 0 && s.hasRoom() {
				s.roomed()
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// attempt has a peer that is down connected, also when no message for it was taken.
func (p *peer) attempt() {
	if !p.down.Load() {
		return
	}
	p.Lock()
	if !p.Gone() {
		p.Core.Connect(p.node.now())
		p.Arm()
	}
	p.Commit()
}

// pause waits for what refused a message to change: a congestion map, or the
// peer's budget. It returns nil to try again.
func (s *nodeSocket) pause(ctx context.Context, p *peer, m *conn.Message, cause error, block bool, scope *waitScope) error {
	congested := errors.Is(cause, conn.ErrCongested)
	switch {
	case errors.Is(cause, conn.ErrClosed):
		return net.ErrClosed
	case errors.Is(cause, conn.ErrBarred):
		return &notAllowedError{p.remote}
	case errors.Is(cause, ErrNotSupported):
		return cause
	case congested && !block:
		s.node.counters.congSendError.Add(1)
		s.refused(m.Dport)
		if s.monitor.Load() != nil && p.takes(m.Dport) { // a map opened the port before the refusal was noted, and told nobody
			s.congestionNews()
		}
		return ErrCongested
	case !block:
		s.node.counters.sendQueueFull.Add(1)
		return ErrWouldBlock
	case congested:
		s.node.counters.congSendBlocked.Add(1)
		scope.enter(senderWait{cause: CauseCongested, peer: p.index, port: m.Dport})
	default:
		scope.enter(senderWait{cause: CauseBudget, peer: p.index})
	}
	p.Push()
	w := p.waiters.add()
	defer p.waiters.done(w)
	switch {
	case p.takes(m.Dport):
		return nil
	case s.closed.Load() || p.Gone():
		return net.ErrClosed
	}
	if err := s.wdl.err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.Pressed()
	if err := w.wait(ctx); err != nil {
		return err
	}
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.wdl.err()
}

// takes tells whether a port of the peer takes messages.
func (p *peer) takes(port uint16) bool {
	p.Lock()
	defer p.Unlock()
	return p.Core.Admits(port)
}

// sendBatch takes the connection's lock once for a run of messages to one host.
func (s *nodeSocket) sendBatch(ctx context.Context, out []Outgoing, block bool) (int, error) {
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
		if err := sendWithin(ctx, s, &out[n], block); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

var errRun = errors.New("rds: end of the run")

// sendRun sends leading messages as long as that needs no waiting, then
// returns how many and errRun, for send to judge the next one.
func (s *nodeSocket) sendRun(out []Outgoing) (int, error) {
	to, err := s.check(&out[0])
	if err != nil || s.closed.Load() {
		return 0, errRun
	}
	p, err := s.peerFor(to.Addr())
	if err != nil {
		return 0, errRun
	}
	limit := min(len(out), 1024)
	h := s.share(p)
	var m conn.Message
	n := 0
	p.Lock()
	for ; n < limit; n++ {
		o := &out[n]
		size := size(o)
		if n > 0 {
			if to, err = s.check(o); err != nil || to.Addr() != p.remote {
				break
			}
		}
		special := needsRDMA(o)
		if special && !s.sendsLocked(p, o) || size > conn.InlineMax && (o.Buffer == nil || !whole(o.Buffer)) || !h.take(size) {
			break
		}
		s.prepare(&m, o, h, to.Port())
		if special {
			s.extend(&m, p, newOperation(s, p, o, to.Port()), wire.Memory{HasDest: o.HasDest, Dest: uint64(o.Dest)})
		}
		if p.enqueueLocked(s, &m) != nil {
			m.Account.Refund(size, 1)
			break
		}
		accepted(o, m.Body != nil)
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

// cancel is RDS_CANCEL_SENT_TO.
func (s *nodeSocket) cancel(to netip.AddrPort) error {
	if err := s.unsend(to); err != nil {
		return err
	}
	return s.awaitMemory(to)
}

// unsend is the part of cancel that does not wait.
func (s *nodeSocket) unsend(to netip.AddrPort) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if to.Addr().IsValid() && !unicast(to.Addr()) {
		return ErrInvalid
	}
	all := !to.Addr().IsValid()
	s.node.eachPeer(func(p *peer) {
		if p.local == s.la && (all || p.remote == to.Addr()) {
			p.cancel(s, to.Port(), all)
		}
	})
	s.writers.wake(-1)
	return nil
}

// awaitMemory is the rest of it: what operations to the destination had of the
// application is its own again.
func (s *nodeSocket) awaitMemory(to netip.AddrPort) error {
	all := !to.Addr().IsValid()
	return s.ops.wait(func(op *operation) bool {
		return all || op.peer.remote == to.Addr() && op.dport == to.Port()
	})
}

// whole tells whether a message's data starts at the start of a buffer that
// nobody shares and is too large to be copied behind a header.
func whole(m *Message) bool {
	b := m.Held()
	return b != nil && len(m.Data) > conn.InlineMax && b.Sole() && &m.Data[0] == &b.B[0]
}

func (s *nodeSocket) sendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	return s.send(ctx, &Outgoing{To: to, Data: data}, block)
}
