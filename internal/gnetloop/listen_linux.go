package gnetloop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Waits between attempts to accept while the system has no room for more.
const (
	acceptDelayMin = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// Listener accepts connections until it or its engine is closed. It is ours
// and not gnet's, because gnet's event loops end on an accept error, EMFILE
// included.
type Listener struct {
	e      *Engine
	ln     *net.TCPListener
	ctx    context.Context // ends with the listener and with the engine
	cancel context.CancelFunc

	local  netip.AddrPort  // address of this part of a shared socket
	shared *sharedListener // socket that this is a part of, which alone has run; nil: it is a socket of its own

	last atomic.Bool   // what the kernel has connected is offered, and then listening ends
	done chan struct{} // closed when nothing is offered any more
	hold atomic.Pointer[pausing]
}

// Listen accepts connections on local; the kernel chooses a port that is 0.
// Each is offered to accept on a goroutine of the engine; accept must start it
// or close it, at once or later, and must not block.
//
// An address that shares a socket (Options.Sharing) has no port 0, and its Listener may be
// closed like others.
func (e *Engine) Listen(local netip.AddrPort, accept func(*Conn)) (*Listener, error) {
	local = unmap(local)
	if e.opts.Sharing.Has(local.Addr()) && local.Port() != 0 {
		return e.listenShared(local, accept)
	}
	return e.listen(local, []netip.Prefix{netip.PrefixFrom(local.Addr().WithZone(""), local.Addr().BitLen())}, accept)
}

// listen opens a socket that accepts the connections to prefixes.
func (e *Engine) listen(local netip.AddrPort, prefixes []netip.Prefix, accept func(*Conn)) (*Listener, error) {
	l, err := e.listener(local)
	if err != nil {
		return nil, err
	}
	if err := e.steer(prefixes, l); err != nil {
		_ = l.Close()
		return nil, err
	}
	ln := &Listener{e: e, ln: l, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = l.Close()
		return nil, net.ErrClosed
	}
	ln.ctx, ln.cancel = context.WithCancel(e.ctx)
	e.listeners[ln] = struct{}{}
	e.wg.Go(func() { ln.run(accept) })
	return ln, nil
}

// listener is the socket to accept on: an inherited one, or a new one.
func (e *Engine) listener(local netip.AddrPort) (*net.TCPListener, error) {
	if in := e.opts.Inherited; in != nil {
		if l := in.Listener(local); l != nil {
			raw, err := l.SyscallConn()
			if err == nil {
				err = e.control("", "", raw)
			}
			if err != nil {
				_ = l.Close()
				return nil, err
			}
			return l, nil
		}
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: e.control}
	lc.SetMultipathTCP(false) // multipath TCP is on by default, and its sockets answer SIOCOUTQ differently
	l, err := lc.Listen(e.ctx, network(local.Addr()), local.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// Addr is what is listened on, with the port the kernel chose.
func (ln *Listener) Addr() netip.AddrPort {
	if ln.shared != nil {
		return ln.local
	}
	return addrPort(ln.ln.Addr())
}

// Close ends listening. One more connection may be offered while it runs.
func (ln *Listener) Close() {
	if ln.shared != nil {
		ln.leave()
		return
	}
	ln.cancel()
	_ = ln.ln.Close()
}

// unlisten ends listening after all connections that the kernel has made have been
// offered: a peer may have sent something on them, and had it acknowledged, which the
// kernel would throw away with a listening socket that is closed.
func (ln *Listener) unlisten() {
	// The kernel makes no more: it drops what comes for the listening socket.
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if raw, err := ln.ln.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
		})
	}
	ln.last.Store(true)
	_ = ln.ln.SetDeadline(time.Unix(1, 0)) // a call of run that waits returns
	<-ln.done
	ln.Close()
}

// queued tells whether the kernel has a connection to offer.
func (ln *Listener) queued() bool {
	n := 0
	if raw, err := ln.ln.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		})
	}
	return n > 0
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// control sets what must be set before the socket listens or connects, when
// the window scale is still open (net/rds/tcp.c, rds_tcp_tune).
func (e *Engine) control(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = setBuffers(int(fd), &e.opts) }); e != nil {
		return e
	}
	return err
}

// run accepts until the listener is closed. No error ends it: a host out of
// descriptors must accept again as soon as some are free.
func (ln *Listener) run(accept func(*Conn)) {
	defer func() {
		close(ln.done)
		ln.cancel()
		ln.e.mu.Lock()
		delete(ln.e.listeners, ln)
		ln.e.mu.Unlock()
	}()
	if !ln.began() {
		return
	}
	var (
		delay  time.Duration
		losers []*Conn // connections that had to end for others, oldest first
	)
	for !ln.last.Load() || ln.queued() {
		ln.rest()
		tc, err := ln.ln.AcceptTCP()
		var c *Conn
		if err == nil {
			if !ln.e.admits(tc) {
				continue
			}
			c, err = ln.e.newConn(tc, false)
		}
		switch {
		case err == nil:
			if delay != 0 {
				delay = 0
				ln.e.log.Info("accepting again", zap.Stringer("local", ln.ln.Addr()))
			}
			if loser := ln.e.crowd(c); loser != nil {
				losers = append(losers, loser)
			}
			accept(c)
			if len(losers) > mostLosers { // whoever connects faster than connections end waits
				select {
				case <-losers[0].over:
				case <-ln.ctx.Done():
				}
				losers = slices.Delete(losers, 0, 1)
			}
			continue
		case ln.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded): // unlisten or pause has set the deadline
			if ln.last.Load() {
				_ = ln.ln.SetDeadline(time.Time{})
			}
			continue
		}
		ln.e.acceptErrors.Add(1)
		if !scarce(err) || errors.Is(err, errReserved) {
			continue // only that one connection is at fault
		}
		if ln.last.Load() {
			return
		}
		if delay == 0 {
			ln.e.log.Warn("cannot accept", zap.Stringer("local", ln.ln.Addr()), zap.Error(err))
		}
		delay = min(max(2*delay, acceptDelayMin), acceptDelayMax)
		wait := time.NewTimer(delay)
		select {
		case <-wait.C:
		case <-ln.ctx.Done():
			wait.Stop()
			return
		}
	}
}

// crowd counts a connection among those that are not settled, unless the gate's list names
// its peer. If there are too many it ends another one, and returns it.
func (e *Engine) crowd(c *Conn) (loser *Conn) {
	if e.opts.Gate != nil && e.opts.Gate.Listed(c.remote.Addr()) {
		return nil
	}
	if loser = e.half.add(c); loser != nil {
		e.crowded.Add(1)
		loser.Fail(errCrowded)
	}
	return loser
}

// mostLosers is how many connections of a listener may be ending for others.
const mostLosers = 16

// admits asks the gate about a connection, and resets one that is not admitted.
func (e *Engine) admits(tc *net.TCPConn) bool {
	if e.opts.Gate == nil || e.opts.Gate.Admits(addrPort(tc.RemoteAddr()).Addr()) {
		return true
	}
	_ = tc.SetLinger(0)
	_ = tc.Close()
	return false
}

// scarce tells whether err means that the system is out of something, so that
// trying again at once is futile.
func scarce(err error) bool {
	for _, e := range []unix.Errno{unix.ECONNABORTED, unix.ECONNRESET, unix.EPROTO, unix.EINVAL, unix.ENOTCONN} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}
