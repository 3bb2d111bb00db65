package client

import (
	"context"
	"net"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// hasRoom tells whether the send buffer has room, counting what the daemon has
// settled.
func (h *half) hasRoom() bool {
	if h.account.HasRoom() {
		return true
	}
	h.collect()
	return h.roomForOthers()
}

// collect takes back what the daemon has settled.
func (h *half) collect() {
	h.freedMu.Lock()
	defer h.freedMu.Unlock()
	b, m := h.cell.FreedBytes.Load(), h.cell.FreedMessages.Load()
	if h.retired || b == h.freed[0] && m == h.freed[1] {
		return
	}
	bytes, messages := int(b-h.freed[0]), int(m-h.freed[1])
	h.account.Refund(bytes, messages)
	h.att.budget.account.Refund(bytes+messages*socket.ItemCost, messages)
	h.freed = [2]uint64{b, m}
}

// check checks a message and finds its destination.
func (s *Socket) check(ctx context.Context, t *attachment, o *datagram.Outgoing) (to netip.AddrPort, d *destination, err error) {
	to = o.To
	if !to.IsValid() {
		if to, err = socket.DefaultDestination(to, s.ToPort.Load()); err != nil {
			return to, nil, err
		}
	}
	if a := to.Addr(); a.Is4In6() {
		to = netip.AddrPortFrom(a.Unmap(), to.Port())
	}
	a := to.Addr()
	if d = s.last.Load(); d == nil || d.addr != a || d.t != t {
		d = nil
		if err = socket.CheckDestination(s.addr.Addr(), a); err != nil {
			return to, nil, err
		}
	}
	if err = socket.CheckMessage(o, &s.Fates, int(s.sndbuf.Load())); err != nil {
		return to, d, err
	}
	n := socket.Size(o)
	if d != nil {
		return to, d, d.takes(n)
	}
	if ctx.Err() != nil { // ctx bounds waiting for room, and there may be room
		ctx = context.Background()
	}
	peer, err := t.resolve(ctx, s.addr.Addr(), a)
	if err != nil {
		return to, nil, err
	}
	d = &destination{t, a, peer}
	s.last.Store(d)
	return to, d, d.takes(n)
}

func (s *Socket) Send(ctx context.Context, o *datagram.Outgoing, block bool) error {
	h, err := s.session(ctx, block)
	if err != nil {
		return err
	}
	to, d, err := s.check(ctx, h.att, o)
	if err == nil {
		err = s.admits(ctx, h, d)
	}
	if err != nil {
		return err
	}
	if !socket.Says(o) {
		return s.sendChecked(ctx, h, d, to.Port(), o, nil, block)
	}
	n := socket.Size(o)
	x, err := s.special(ctx, h, d, to, o, block)
	if err != nil {
		return err
	}
	if err = s.sendChecked(ctx, h, d, to.Port(), o, x, block); err != nil {
		x.undo(h)
		return err
	}
	x.accepted(s, h, o)
	h.expires(d.peer, n, o.Expires)
	return nil
}

// sendChecked charges and submits a message. x is what it says besides its payload.
func (s *Socket) sendChecked(ctx context.Context, h *half, d *destination, port uint16, o *datagram.Outgoing, x *special, block bool) error {
	n := socket.Size(o)
	if err := s.charge(ctx, h, d, port, n, block); err != nil {
		return err
	}
	scope := socket.WaitScope{List: &h.waits}
	for {
		err := s.submit(h, d, port, o, x)
		switch {
		case err == nil:
			scope.End()
			return nil
		case err == conn.ErrCongested:
			switch {
			case !block:
				h.cell.Congested.Add(1)
			case scope.Enter(socket.SenderWait{Cause: info.CauseCongested, Peer: d.peer, Port: port}):
				h.cell.Blocked.Add(1)
			}
			// Meanwhile others have the room: a congested port keeps nobody from
			// sending to another one.
			h.untake(d.peer, n)
			s.roomed()
			if err = s.awaitMap(ctx, h, d, port, block); err == nil {
				err = d.allowed()
			}
			if err == nil {
				err = s.charge(ctx, h, d, port, n, block)
			}
			if err != nil {
				scope.End()
				return err
			}
		case err == conn.ErrBarred:
			err = &socket.NotAllowedError{Peer: d.addr}
		case err == errFull && block:
			if scope.Enter(socket.SenderWait{Cause: info.CauseMemory, Any: true}) {
				h.cell.Full.Add(1)
			}
			var done bool
			if done, err = s.awaitSpace(ctx, h, d, port, o, x); done {
				scope.End()
				return nil
			}
		case err == errFull && h.att.catchUp(): // memory may have come back that nobody has waited for
			continue
		case err == errFull:
			h.cell.Full.Add(1)
			err = datagram.ErrWouldBlock
		default:
			err = s.lossOf(h)
		}
		if err != nil {
			scope.End()
			h.untake(d.peer, n)
			s.roomed()
			return err
		}
	}
}

// entry is the submission of a message.
func (h *half) entry(op ipc.Op, d *destination, port uint16, o *datagram.Outgoing, n int, x *special) ipc.Entry {
	var (
		flags uint8
		token uint64
	)
	if o.Notify {
		flags, token = ipc.FlagNotify, o.Token
	}
	if x != nil {
		flags |= ipc.FlagAbout
	}
	return ipc.MakeEntry(op, flags, port, h.id, d.peer, uint32(n), 0, 0, token)
}

// submit puts a message that has been charged on the ring.
func (s *Socket) submit(h *half, d *destination, port uint16, o *datagram.Outgoing, x *special) error {
	t := h.att
	switch {
	case t.table.Barred(int(d.peer)):
		return conn.ErrBarred
	case t.table.Congested(int(d.peer), port):
		return conn.ErrCongested
	}
	if !s.Sent.Load() {
		s.Sent.Store(true)
	}
	data := o.Data
	if b := o.Buffer; b != nil {
		if own, ok := inArena(b, t); ok {
			if !t.lends(d.peer) {
				return t.noRoom()
			}
			if err := t.putBuffer(&h.asked, h.entry(ipc.OpSendBlock, d, port, o, len(b.Data), x), own, x.said()); err != nil {
				return err
			}
			*b = datagram.Message{}
			return nil
		}
		data = b.Data
	}
	if len(data) > conn.InlineMax && !t.lends(d.peer) {
		return t.noRoom()
	}
	if err := h.putCopy(d, port, o, data, x); err != nil {
		return err
	}
	socket.Accepted(o, false)
	return nil
}

// putCopy puts a message with a copy of data on the ring.
func (h *half) putCopy(d *destination, port uint16, o *datagram.Outgoing, data []byte, x *special) error {
	t, n := h.att, len(data)
	if n <= conn.InlineMax {
		return t.put(&h.asked, h.entry(ipc.OpSend, d, port, o, n, x), x.said(), data)
	}
	own := t.alloc(n)
	if own == nil {
		return t.noRoom()
	}
	buf.Copy(own.B, data)
	err := t.putBuffer(&h.asked, h.entry(ipc.OpSendBlock, d, port, o, n, x), own, x.said())
	if err != nil {
		own.Release()
	}
	return err
}

// charge takes room in the send buffer and in the session's budget, waiting for it if
// block is set. Without it a congested port counts before a lack of room, as in Linux.
func (s *Socket) charge(ctx context.Context, h *half, d *destination, port uint16, n int, block bool) error {
	why := h.take(d.peer, n)
	if why == taken {
		return nil
	}
	h.collect()
	if why == fullBudget {
		h.att.collectAll()
	}
	if why = h.take(d.peer, n); why == taken {
		return nil
	}
	if !block && h.att.table.Congested(int(d.peer), port) {
		h.cell.Congested.Add(1)
		return s.awaitMap(ctx, h, d, port, false)
	}
	h.cell.Full.Add(1)
	h.attempt(s.addr.Addr(), d.addr, d.peer)
	if !block {
		return datagram.ErrWouldBlock
	}
	scope := socket.WaitScope{List: &h.waits}
	defer scope.End()
	for {
		w := socket.SenderWait{Cause: info.CauseSendBuffer, Any: true}
		if why == fullBudget {
			w = socket.SenderWait{Cause: info.CauseBudget, Peer: d.peer}
		}
		scope.Enter(w)
		if err := ctx.Err(); err != nil {
			s.roomed() // the bell for room may have been meant for another sender
			return err
		}
		if err := d.allowed(); err != nil {
			s.roomed()
			return err
		}
		var err error
		if why, err = s.awaitRoom(ctx, h, d, n, why); err != nil {
			return err
		}
		if why == taken {
			if s.writers.N.Load() > 0 {
				h.cell.WantRoom.Set() // for the other senders: the flag was cleared for this one
				if h.hasRoom() {
					s.roomed()
				}
			}
			return nil
		}
	}
}

// awaitRoom waits until there may be room where a message was refused for why. It returns
// taken if it has tried with success.
func (s *Socket) awaitRoom(ctx context.Context, h *half, d *destination, n int, why shortage) (shortage, error) {
	q := &s.writers
	if why == fullBudget {
		q = &h.att.space
	}
	if h.att.table.Down(int(d.peer)) {
		s.waitDown.Add(1)
		defer s.waitDown.Add(-1)
		defer h.att.waitDown.Add(-1)
		h.att.waitDown.Add(1)
		h.att.seg.WantMaps().Set() // WantMaps also asks for news of peers
	}
	w := q.Add()
	defer q.Done(w)
	if why == fullBudget {
		h.att.want.Set()
		h.att.collectAll()
	} else {
		h.cell.WantRoom.Set()
		h.collect()
	}
	if err := s.stop(ctx, h); err != nil {
		return why, err
	}
	if now := h.take(d.peer, n); now != why {
		return now, nil // taken, or there is another shortage to wait for
	}
	return why, h.att.wait(ctx, w, false)
}

// roomed wakes a sender that waits for room, or all where they wait for different room.
func (s *Socket) roomed() {
	if s.waitDown.Load() > 0 {
		s.writers.Wake(-1)
	} else {
		s.writers.Wake(1)
	}
}

// awaitMap waits until the destination port may be free again. It returns nil
// to try again.
func (s *Socket) awaitMap(ctx context.Context, h *half, d *destination, port uint16, block bool) error {
	t := h.att
	if !block {
		s.Refused(port)
		if s.Monitor.Load() != nil {
			t.seg.WantMaps().Set()
			if !t.table.Congested(int(d.peer), port) {
				s.CongestionNews()
			}
		}
		return datagram.ErrCongested
	}
	w := t.maps.Add()
	defer t.maps.Done(w)
	t.seg.WantMaps().Set()
	if !t.table.Congested(int(d.peer), port) {
		return nil
	}
	return s.sleep(ctx, h, w)
}

// awaitSpace waits for room on the ring or in the area that the payload needs.
// It returns nil to try again, and done if it has tried with success.
func (s *Socket) awaitSpace(ctx context.Context, h *half, d *destination, port uint16, o *datagram.Outgoing, x *special) (done bool, err error) {
	t := h.att
	w := t.space.Add()
	defer t.space.Done(w)
	t.want.Set()
	switch err := s.submit(h, d, port, o, x); err {
	case nil:
		return true, nil
	case errFull:
		return false, s.sleep(ctx, h, w)
	default:
		return false, nil // send judges the result
	}
}

// sleep waits to be woken unless there is a reason not to.
func (s *Socket) sleep(ctx context.Context, h *half, w *socket.Waiter) error {
	if err := s.stop(ctx, h); err != nil {
		return err
	}
	if err := h.att.wait(ctx, w, false); err != nil {
		return err
	}
	return s.stop(ctx, h)
}

// stop is the error that ends a wait.
func (s *Socket) stop(ctx context.Context, h *half) error {
	switch {
	case s.Closed.Load():
		return net.ErrClosed
	case s.half.Load() != h:
		return s.lossOf(h)
	}
	if err := s.WriteDeadline.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

// SendBatch submits runs of small messages under one lock.
func (s *Socket) SendBatch(ctx context.Context, out []datagram.Outgoing, block bool) (int, error) {
	n := 0
	for n < len(out) {
		n += s.sendRun(ctx, out[n:])
		if n == len(out) {
			break
		}
		if err := socket.SendWithin(ctx, s, &out[n], block); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sendRun submits leading small messages as long as that needs no waiting.
func (s *Socket) sendRun(ctx context.Context, out []datagram.Outgoing) int {
	h, err := s.session(ctx, false)
	if err != nil {
		return 0
	}
	t := h.att
	to, d, err := s.check(ctx, t, &out[0])
	if err != nil || s.admits(ctx, h, d) != nil {
		return 0
	}
	u := &t.submission
	n := 0
	var begun *operation // operations submitted, linked by run
	u.mu.Lock()
	for ; n < len(out); n++ {
		o := &out[n]
		if n > 0 {
			var e *destination
			if o.To.Addr() != d.addr && o.To.IsValid() {
				break
			}
			if to, e, err = s.check(ctx, t, o); err != nil || e != d {
				break
			}
		}
		data := o.Data
		if o.Buffer != nil {
			if _, ok := inArena(o.Buffer, t); ok {
				break
			}
			data = o.Buffer.Data
		}
		x := (*special)(nil)
		if socket.Says(o) {
			if x = &u.about; o.Map != nil || socket.NeedsRDMA(o) && (!t.operates || t.table.Carries(int(d.peer)) != ipc.CarriesOperations) || x.describe(h, o) != nil {
				break
			}
		}
		if len(data) > conn.InlineMax || t.table.Congested(int(d.peer), to.Port()) || h.take(d.peer, len(data)) != taken {
			break
		}
		if x != nil {
			x.begin(h, to, o)
		}
		if u.putLocked(&h.asked, h.entry(ipc.OpSend, d, to.Port(), o, len(data), x), x.said(), data) != nil {
			h.untake(d.peer, len(data))
			if x != nil {
				x.undo(h)
			}
			break
		}
		h.expires(d.peer, len(data), o.Expires)
		if x != nil && x.op != nil {
			x.op.run, begun = begun, x.op
		}
		if o.Buffer != nil {
			u.mu.Unlock() // releasing may give memory back, on the same ring
			socket.Accepted(o, false)
			u.mu.Lock()
		}
	}
	if n > 0 {
		u.publishLocked()
	}
	u.mu.Unlock()
	if n > 0 {
		if !s.Sent.Load() {
			s.Sent.Store(true)
		}
		u.wake()
	}
	for op := begun; op != nil; {
		next := op.run
		op.run = nil
		s.submitted(h, op)
		op = next
	}
	return n
}

func (s *Socket) SendTo(ctx context.Context, to netip.AddrPort, data []byte, block bool) error {
	return s.Send(ctx, &datagram.Outgoing{To: to, Data: data}, block)
}
