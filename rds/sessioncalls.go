package rds

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
)

// callTimeout bounds how long the daemon waits for an application to read the
// answer to its call.
const callTimeout = 5 * time.Second

// calls answers the application's calls until it has gone.
func (x *session) calls() {
	var (
		mu sync.Mutex // one answer at a time
		wg sync.WaitGroup
	)
	reply := func(r *ipc.Reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = x.conn.SetWriteDeadline(time.Now().Add(callTimeout))
		if err := x.conn.Send(r); err != nil {
			_ = x.conn.Close() // and the next Receive ends the session
		}
	}
	for {
		var q ipc.Request
		if err := x.conn.Receive(&q); err != nil {
			x.end(err)
			break
		}
		switch q.Op {
		case ipc.CallClose: // lingers
			a, err := x.take(q.Socket)
			if err != nil {
				reply(failed(q.ID, err))
				continue
			}
			wg.Go(func() {
				a.s.linger.Store(int64(q.Linger))
				a.s.shut()
				r := &ipc.Reply{ID: q.ID}
				if d := a.finish(); d != nil {
					r.Messages, r.Bytes = d.Messages, d.Bytes
				}
				reply(r)
			})
		case ipc.CallInfo:
			x.report(q.ID, reply)
		default:
			r, err := x.call(&q)
			if err != nil {
				r = failed(q.ID, err)
			}
			r.ID = q.ID
			reply(r)
		}
	}
	wg.Wait()
}

// failed is the reply that carries an error.
func failed(id uint64, err error) *ipc.Reply {
	r := &ipc.Reply{ID: id, Error: err.Error(), Errno: int(syscall.EIO)}
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		r.Errno = int(errno)
	case errors.Is(err, net.ErrClosed):
		r.Errno = int(syscall.EBADF)
	}
	return r
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
		return x.bind(q.Addr)
	case ipc.CallResolve:
		return x.resolve(q.Local, q.Remote)
	}
	a, ok := x.socket(q.Socket)
	if !ok || a == nil {
		return nil, net.ErrClosed
	}
	r := new(ipc.Reply)
	switch q.Op {
	case ipc.CallConnect:
		return r, a.s.connect(q.Addr)
	case ipc.CallCancel:
		return r, a.s.cancel(q.Addr)
	case ipc.CallOption:
		return r, a.option(q.Option, q.Value)
	}
	return nil, ErrInvalid
}

// catchUp takes the submissions that came before a call.
func (x *session) catchUp() error {
	for more := true; more; {
		var err error
		if _, more, err = x.pump(pumpEntries); err != nil {
			go x.end(err) // it needs mu
			return err
		}
	}
	return nil
}

func (a *appSocket) option(name string, v int64) error {
	switch name {
	case ipc.OptionSendBuffer:
		return a.s.setBuffers(int(v), 0)
	case ipc.OptionReceiveBuffer:
		return a.s.setBuffers(0, int(v))
	case ipc.OptionRecvErr:
		return a.s.setRecvErr(v != 0)
	case ipc.OptionTOS:
		return a.s.setTOS(uint8(v))
	case ipc.OptionMonitor:
		return nil // it is the application's own
	}
	return ErrInvalid
}

// bind makes a socket. The caller holds mu.
func (x *session) bind(addr netip.AddrPort) (*ipc.Reply, error) {
	addr = unmap(addr)
	cfg := x.svc.config()
	i := 0
	for i < len(x.sockets) && x.sockets[i] != nil {
		i++
	}
	switch {
	case x.ended || x.svc.draining.Load():
		return nil, net.ErrClosed
	case !unicast(addr.Addr()) || addr.Port() == 1:
		return nil, ErrInvalid
	case !x.node.serves(addr.Addr()):
		return nil, ErrAddressNotAvailable
	case i >= min(cfg.MaxSockets, x.seg.Sockets):
		return nil, fmt.Errorf("%d sockets are this session's limit: %w", i, ErrTooMany)
	case addr.Port() != 0 && !permits(cfg.Ports, addr.Port(), x.cred.UID, x.gids):
		return nil, ErrPermission
	}
	if i == len(x.sockets) {
		x.sockets = append(x.sockets, nil)
		x.gens = append(x.gens, 0)
	}
	x.gens[i]++
	a := &appSocket{sess: x, id: uint32(x.gens[i])<<16 | uint32(i), cell: x.seg.Cell(i)}
	a.cell.Reset()
	var held []*nodeSocket // ports of others, kept from being chosen again
	defer func() {
		for _, s := range held {
			_ = s.close()
		}
	}()
	for {
		s, err := x.node.bind(addr, func(s *nodeSocket) {
			s.app, a.s = a, s
			s.q.source = a
			s.account.Every = true
		})
		if err != nil {
			return nil, err
		}
		if addr.Port() == 0 && !permits(cfg.Ports, s.port, x.cred.UID, x.gids) {
			held = append(held, s)
			continue
		}
		x.sockets[i] = a
		x.bound.Add(1)
		return &ipc.Reply{Socket: a.id, Addr: s.local()}, nil
	}
}

// take removes a socket from the session, for its end.
func (x *session) take(id uint32) (*appSocket, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.catchUp(); err != nil {
		return nil, err
	}
	a, ok := x.socket(id)
	if !ok || a == nil {
		return nil, net.ErrClosed
	}
	x.sockets[id&0xffff] = nil
	x.bound.Add(-1)
	return a, nil
}

// resolve finds or makes the connection between two addresses.
func (x *session) resolve(local, remote netip.Addr) (*ipc.Reply, error) {
	la := x.node.local(local)
	if la == nil || !unicast(remote) {
		return nil, ErrInvalid
	}
	p, err := x.node.peer(la, remote)
	if err != nil {
		return nil, err
	}
	if p.index >= ipc.MaxPeers {
		return nil, fmt.Errorf("%d peers are the limit: %w", ipc.MaxPeers, ErrTooMany)
	}
	return &ipc.Reply{Peer: p.index}, nil
}

// report answers CallInfo, in parts.
func (x *session) report(id uint64, reply func(*ipc.Reply)) {
	info, err := x.node.Info()
	var b []byte
	if err == nil {
		info.Provider = ProviderDaemon
		b, err = json.Marshal(info)
	}
	if err != nil {
		reply(failed(id, err))
		return
	}
	for len(b) > ipc.DataPart {
		reply(&ipc.Reply{ID: id, Data: b[:ipc.DataPart], More: true})
		b = b[ipc.DataPart:]
	}
	reply(&ipc.Reply{ID: id, Data: b})
}

// info describes the session.
func (x *session) info() SessionInfo {
	i := SessionInfo{
		ID: x.id, PID: x.cred.PID, UID: x.cred.UID, GID: x.cred.GID, Command: x.command, Since: x.since,
		Sockets: int(x.bound.Load()), SendQueued: int(x.queued.Load()), SendBudget: int(x.budget),
		ReceiveArena: x.seg.Receive, ReceiveLent: x.mem.used(),
		SentMessages: x.sentMessages.Load(), SentBytes: x.sentBytes.Load(),
		RecvMessages: x.recvMessages.Load(), RecvBytes: x.recvBytes.Load(), Stalled: x.stalls.Load(),
	}
	x.out.mu.Lock()
	for _, a := range x.out.waiting {
		i.Waiting += int(a.s.q.count.Load())
	}
	x.out.mu.Unlock()
	return i
}

func (x *session) logEnd(cause error) {
	fields := []zap.Field{zap.Uint64("sent", x.sentMessages.Load()), zap.Uint64("received", x.recvMessages.Load())}
	switch {
	case errors.Is(cause, errViolation), errors.Is(cause, ipc.ErrCorrupt), errors.Is(cause, ipc.ErrFrame):
		x.log.Warn("application detached by force", append(fields, zap.Error(cause))...)
	default:
		x.log.Info("application detached", fields...)
	}
}
