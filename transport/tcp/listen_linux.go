package tcp

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Waits between attempts to accept while the system has no room for more.
const (
	acceptDelayMin = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// Listen accepts links on local and Options.Port. The listener is ours and not
// gnet's, because gnet's event loops end on an accept error, EMFILE included.
func (t *Transport) Listen(local netip.Addr, accept func(transport.Link)) error {
	lc := net.ListenConfig{KeepAlive: -1, Control: t.control}
	lc.SetMultipathTCP(false) // on by default; its sockets answer SIOCOUTQ differently
	addr := netip.AddrPortFrom(local.Unmap(), t.opts.Port)
	l, err := lc.Listen(t.ctx, network(addr.Addr()), addr.String())
	if err != nil {
		return err
	}
	ln := l.(*net.TCPListener)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = ln.Close()
		return net.ErrClosed
	}
	t.listeners = append(t.listeners, ln)
	t.wg.Go(func() { t.accept(ln, accept) })
	return nil
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// control sets what must be set before the socket listens or connects, when
// the window scale is still open (net/rds/tcp.c, rds_tcp_tune).
func (t *Transport) control(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = setBuffers(int(fd), &t.opts) }); e != nil {
		return e
	}
	return err
}

// accept runs until the listener is closed. No error ends it: a host out of
// descriptors must accept again as soon as some are free.
func (t *Transport) accept(ln *net.TCPListener, accept func(transport.Link)) {
	var delay time.Duration
	for {
		tc, err := ln.AcceptTCP()
		var l *link
		if err == nil {
			l, err = t.newLink(tc, false)
		}
		switch {
		case err == nil:
			if delay != 0 {
				delay = 0
				t.log.Info("accepting again", zap.Stringer("local", ln.Addr()))
			}
			accept(l)
			continue
		case t.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		}
		t.acceptErrors.Add(1)
		if !scarce(err) {
			continue // the fault of that one connection
		}
		if delay == 0 {
			t.log.Warn("cannot accept", zap.Stringer("local", ln.Addr()), zap.Error(err))
		}
		delay = min(max(2*delay, acceptDelayMin), acceptDelayMax)
		wait := time.NewTimer(delay)
		select {
		case <-wait.C:
		case <-t.ctx.Done():
			wait.Stop()
			return
		}
	}
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
