package daemon

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// callTimeout bounds how long the daemon waits for an application to read the
// answer to its call.
const callTimeout = 5 * time.Second

// calls answers the application's calls until it has gone.
func (x *session) calls() {
	send, reply := x.answer, x.reply
	for {
		var q ipc.Request
		file, err := x.conn.ReceiveFile(&q)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) { // Service.rest has set the deadline
				if h := x.svc.moving.Load(); h != nil {
					x.park(h)
				}
				continue
			}
			if broken := x.broken(); broken != nil { // rather than net.ErrClosed, which would mean that the service ends
				err = broken
			}
			x.end(err)
			return
		}
		if q.Op == ipc.CallXRC {
			if q.XRC != nil && q.XRC.Op == ipc.XRCEvent && x.awaitEvent(q.ID, reply) {
				if file != nil {
					_ = file.Close()
				}
				continue
			}
			x.beside(func() {
				if file != nil {
					defer file.Close()
				}
				r := &ipc.Reply{ID: q.ID}
				var err error
				if r.XRC, err = x.xrcCall(q.XRC, file); err != nil {
					r = failed(q.ID, err)
				}
				reply(r)
			})
			continue
		}
		if file != nil {
			_ = file.Close()
		}
		switch q.Op {
		case ipc.CallClose: // lingers
			a, err := x.take(q.Socket)
			if err != nil {
				reply(failed(q.ID, err))
				continue
			}
			a.s.Linger.Store(int64(q.Linger))
			a.call = q.ID
			if a.closing {
				a.s.Shut()
			} else {
				a.leave()
			}
			x.beginWork(func() { x.answerEnd(a) })
		case ipc.CallInfo:
			x.beside(func() { x.report(&q, send) })
		case ipc.CallCancel, ipc.CallReach, ipc.CallConceal:
			x.beside(func() {
				r, err := x.long(&q)
				if err != nil {
					r = failed(q.ID, err)
				}
				r.ID = q.ID
				reply(r)
			})
		default:
			r, err := x.call(&q)
			if err != nil {
				r = failed(q.ID, err)
			}
			r.ID = q.ID
			reply(r)
		}
	}
}

// awaitEvent answers a call that waits for an event of objects of XRC, and tells whether it does: one waits at a
// time, beside all other calls, because nobody who takes the daemon's place may wait for it.
func (x *session) awaitEvent(id uint64, reply func(*ipc.Reply)) bool {
	xs := x.xrc.Load()
	if xs == nil || xs.hears.Swap(true) {
		return false
	}
	x.svc.work.Go(func() {
		r := &ipc.Reply{ID: id, XRC: new(ipc.XRCReply)}
		err := xs.nextEvent(r.XRC)
		xs.hears.Store(false) // before the application, which may call again, has the answer
		if err != nil {
			r = failed(id, err)
		}
		reply(r)
	})
	return true
}

// failed is the reply that carries an error.
func failed(id uint64, err error) *ipc.Reply {
	return &ipc.Reply{ID: id, Error: err.Error(), Errno: errnoOf(err)}
}

// errnoOf is what an application is told of an error.
func errnoOf(err error) int {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return int(errno)
	case errors.Is(err, net.ErrClosed):
		return int(syscall.EBADF)
	}
	return int(syscall.EIO)
}

// call does what a call asks for, after all that was submitted before it.
func (x *session) call(q *ipc.Request) (*ipc.Reply, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.catchUp(); err != nil {
		return nil, err
	}
	switch q.Op {
	case ipc.CallBind:
		return x.bind(q)
	case ipc.CallResolve:
		return x.resolve(q.Local, q.Remote, q.Wait)
	}
	a, ok := x.socket(q.Socket)
	if !ok || a == nil || a.closing {
		return nil, net.ErrClosed
	}
	r := new(ipc.Reply)
	switch q.Op {
	case ipc.CallConnect:
		return r, a.s.Connect(q.Addr)
	case ipc.CallOption:
		return r, a.option(q.Option, q.Value)
	case ipc.CallExpose:
		c, err := x.expose(a, q.Offset, q.Length, q.Remote.Unmap(), datagram.MRFlags(q.Flags), true)
		r.Cookie = uint64(c)
		return r, err
	case ipc.CallAdmit:
		return r, x.decide(a, q.Peer, config.Wire(q.Option))
	}
	return nil, datagram.ErrInvalid
}

// catchUp takes the submissions that came before a call.
func (x *session) catchUp() error {
	err := x.takeAll()
	if err != nil {
		x.poke() // the event loop finds the same error and has the session end
	}
	return err
}

func (a *appSocket) option(name string, v int64) error {
	switch name {
	case ipc.OptionSendBuffer:
		return a.s.SetBuffers(int(v), 0)
	case ipc.OptionReceiveBuffer:
		// More would be the daemon's memory, not the application's.
		return a.s.SetBuffers(0, int(min(v, int64(max(a.sess.mem.soft, a.s.Node.Config.ReceiveBuffer)))))
	case ipc.OptionRecvErr:
		return a.s.SetRecvErr(v != 0)
	case ipc.OptionTOS:
		return a.s.SetTOS(uint8(v))
	case ipc.OptionMonitor:
		return nil // the application's library does it
	}
	return datagram.ErrInvalid
}

// bind makes a socket. The caller holds mu.
func (x *session) bind(q *ipc.Request) (*ipc.Reply, error) {
	addr := q.Addr
	if !addr.Addr().IsValid() {
		if q.Value < 0 || q.Value > math.MaxUint16 {
			return nil, datagram.ErrInvalid
		}
		addr = netip.AddrPortFrom(netip.Addr{}, uint16(q.Value))
	}
	addr, invalid := x.node.Bindable(addr)
	cfg := x.svc.config()
	i := 0
	for i < len(x.sockets) && x.sockets[i] != nil {
		i++
	}
	switch {
	case x.ended || x.svc.draining.Load():
		return nil, net.ErrClosed
	case invalid != nil:
		return nil, invalid
	case !x.node.Serves(addr.Addr()):
		return nil, address.Foreign("rdsd", x.node.OwnAddresses())
	case i >= x.seg.Sockets || int(x.bound.Load()+x.lingering.Load()) >= cfg.MaxSockets:
		return nil, fmt.Errorf("%d sockets are this session's limit: %w", min(cfg.MaxSockets, x.seg.Sockets), datagram.ErrTooMany)
	case x.node.Local(addr.Addr()) == nil && x.node.Addresses() >= config.MaxAddresses:
		return nil, fmt.Errorf("%d addresses are the limit: %w", config.MaxAddresses, datagram.ErrTooMany)
	case addr.Port() != 0 && !permits(cfg.Ports, addr.Port(), x.cred.UID, x.gids):
		return nil, datagram.ErrPermission
	}
	if err := x.svc.hasMemory(x.user); err != nil {
		return nil, err
	}
	if err := x.svc.occupy(x, addr.Addr(), len(x.node.Config.Addresses) > 0); err != nil {
		return nil, err
	}
	if i == len(x.sockets) {
		x.sockets = append(x.sockets, nil)
		x.gens = append(x.gens, 0)
	}
	x.gens[i]++
	a := &appSocket{sess: x, id: uint32(x.gens[i])<<16 | uint32(i), cell: x.seg.Cell(i)}
	a.cell.Reset()
	a.cell.Number.Store(a.id)
	a.cell.BoundBy.Store(q.ID) // before messages come
	s, err := x.choose(addr, cfg.Ports, func(s *node.Socket) {
		s.Owner, a.s = a, s
		s.Queue.Source = a
		s.Account.Every = true
	})
	if err != nil {
		x.svc.vacate(x, addr.Addr())
		return nil, err
	}
	x.sockets[i] = a
	x.bound.Add(1)
	a.Deliver() // delivers messages that came before the port was bound again
	return &ipc.Reply{Socket: a.id, Addr: s.Local()}, nil
}

// choose binds a socket. For port 0 it takes none that is reserved for others,
// not for a moment either.
func (x *session) choose(addr netip.AddrPort, rules []config.PortRule, prepare func(*node.Socket)) (*node.Socket, error) {
	if addr.Port() != 0 || len(rules) == 0 {
		return x.node.BindFor(addr, x.owner, prepare)
	}
	start := rand.IntN(1 << 16)
	for i := range 1 << 16 {
		port := uint16(start + i)
		if port < 2 || !permits(rules, port, x.cred.UID, x.gids) {
			continue
		}
		s, err := x.node.BindFor(netip.AddrPortFrom(addr.Addr(), port), x.owner, prepare)
		if !errors.Is(err, datagram.ErrAddressInUse) {
			return s, err
		}
	}
	return nil, datagram.ErrAddressInUse
}

// take begins the end of a socket: what was submitted before is still sent. The
// socket is closing if some of that is on the ring yet.
func (x *session) take(id uint32) (*appSocket, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.catchUp(); err != nil {
		return nil, err
	}
	a, ok := x.socket(id)
	if !ok || a == nil || a.closing {
		return nil, net.ErrClosed
	}
	if left, _ := x.pending(a); left > 0 {
		a.closing = true
	} else {
		x.removeLocked(a)
	}
	return a, nil
}

// removeLocked frees a socket's index. The socket lingers from now on: it holds the
// session, which may end before the socket has left.
func (x *session) removeLocked(a *appSocket) {
	x.sockets[a.id&0xffff] = nil
	x.svc.linger(a)
	x.bound.Add(-1)
}

// finish lingers for a socket that was taken, and counts what was dropped. Its
// error is that of appSocket.finish.
func (x *session) finish(a *appSocket) (messages, bytes int, err error) {
	if a.closing {
		linger, start := time.Duration(a.s.Linger.Load()), time.Now()
		messages, bytes = x.awaitTaken(a, linger)
		x.mu.Lock()
		ended := x.ended
		if !ended {
			x.removeLocked(a)
		}
		x.mu.Unlock()
		if ended { // whoever ended the session ends its sockets
			return messages, bytes, nil
		}
		a.s.Linger.Store(int64(linger - time.Since(start)))
		a.leave()
	}
	d, err := a.finish()
	if d != nil {
		messages += d.Messages
		bytes += d.Bytes
	}
	return messages, bytes, err
}

// awaitTaken waits until what a socket has submitted was taken: submissions stay
// on the ring while the session is over its budget. What is there still after
// the linger time is lost, and counted.
func (x *session) awaitTaken(a *appSocket, linger time.Duration) (messages, bytes int) {
	x.mu.Lock()
	messages, bytes = x.pending(a)
	x.mu.Unlock()
	if messages == 0 || linger <= 0 {
		return messages, bytes
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for over := false; messages > 0 && !over; {
		select {
		case <-tick.C:
		case <-late.C:
			over = true
		case <-x.svc.cut:
			over = true
		case <-x.done:
			over = true
		}
		x.mu.Lock()
		messages, bytes = x.pending(a)
		x.mu.Unlock()
	}
	return messages, bytes
}

// pending counts what a socket has submitted and nobody has taken. The caller
// holds mu.
func (x *session) pending(a *appSocket) (messages, bytes int) {
	ready, err := x.sq.Ready()
	if err != nil || x.ended {
		return 0, 0
	}
	for i := range ready {
		e := x.sq.Peek(i)
		if op := e.Op(); e.Socket() == a.id && (op == ipc.OpSend || op == ipc.OpSendBlock) {
			messages++
			bytes += int(e.Length())
		}
	}
	return messages, bytes
}

// cancel is RDS_CANCEL_SENT_TO. What waits on the ring for the session's budget
// was sent too: it is canceled as soon as the cancel makes room for it. The
// caller holds mu.
func (x *session) cancel(a *appSocket, to netip.AddrPort) error {
	for {
		before, _ := x.pending(a)
		if err := a.s.Unsend(to); err != nil || before == 0 {
			return err
		}
		if err := x.catchUp(); err != nil {
			return err
		}
		if now, _ := x.pending(a); now >= before {
			return nil // the budget is used up by other messages
		}
	}
}

// resolve finds or makes the connection between two addresses.
func (x *session) resolve(local, remote netip.Addr, connect bool) (*ipc.Reply, error) {
	la := x.node.Local(local)
	if la == nil {
		return nil, datagram.ErrInvalid
	}
	remote = remote.Unmap()
	if err := socket.CheckDestination(la.Addr, remote); err != nil {
		return nil, err
	}
	if x.node.Known(la.Addr, remote) == nil && !x.node.Allows(remote) {
		x.node.Counters.SendNotAllowed.Add(1)
		return nil, &socket.NotAllowedError{Peer: remote}
	}
	if x.ended {
		return nil, net.ErrClosed
	}
	p, err := x.svc.meet(x, la, remote)
	if err != nil {
		return nil, err
	}
	if p.Index >= ipc.MaxPeers {
		return nil, fmt.Errorf("%d peers are the limit: %w", ipc.MaxPeers, datagram.ErrTooMany)
	}
	x.svc.ShowServer(p)
	if connect {
		p.Attempt()
	}
	return &ipc.Reply{Peer: p.Index}, nil
}

func (x *session) logEnd(cause error) {
	fields := []zap.Field{zap.Uint64("sent", x.sentMessages.Load()), zap.Uint64("received", x.recvMessages.Load())}
	switch {
	case errors.Is(cause, errViolation), errors.Is(cause, errHog), errors.Is(cause, ipc.ErrCorrupt), errors.Is(cause, ipc.ErrFrame):
		x.log.Warn("application detached by force", append(fields, zap.Error(cause))...)
	default:
		x.log.Info("application detached", fields...)
	}
}

// decide tells whether a socket may send to a peer by a transport, which is decided
// if it was not. The caller holds mu.
func (x *session) decide(a *appSocket, peer uint32, w config.Wire) error {
	p := x.node.PeerAt(peer)
	if p == nil || p.Local != a.s.At || ipc.ServerOf(string(w)) == ipc.ServerUnknown {
		return datagram.ErrInvalid
	}
	if err := a.s.Has(w); err != nil {
		return err
	}
	return a.s.Admits(p.Remote, w)
}

// permits tells whether a user in groups may have a name.
func permits[Name uint16 | uint64](rules []config.Rule[Name], name Name, uid uint32, gids []uint32) bool {
	named := false
	for i := range rules {
		r := &rules[i]
		if name < r.First || name > r.Last {
			continue
		}
		named = true
		if slices.Contains(r.UIDs, uid) || slices.ContainsFunc(r.GIDs, func(g uint32) bool { return slices.Contains(gids, g) }) {
			return true
		}
	}
	return !named
}
