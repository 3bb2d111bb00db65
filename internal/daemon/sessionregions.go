package daemon

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// prompt tells whether a submission is no message: it does not wait behind messages for
// which there is no room.
func prompt(op ipc.Op) bool {
	return op == ipc.OpReturn || op == ipc.OpExpose || op == ipc.OpConceal
}

// takePrompt does what a submission says that is no message. The caller holds mu, and no
// peer's lock.
func (x *session) takePrompt(e *ipc.Entry) error {
	if e.Op() == ipc.OpReturn {
		if err := x.mem.returned(e.Offset(), e.Token()); err != nil {
			return err
		}
		x.starving.Store(false)
		return nil
	}
	a, ok := x.socket(e.Socket())
	if !ok {
		return errViolation
	}
	gone := a == nil || a.closing // the socket's regions have ended, or are about to
	if e.Op() == ipc.OpConceal {
		if !gone {
			_, _ = a.s.Conceal(datagram.Cookie(e.Token())) // fails if the region has ended
		}
		return nil
	}
	var c datagram.Cookie
	err := error(net.ErrClosed)
	if !gone {
		c, err = x.expose(a, e.Offset(), e.Length(), netip.Addr{}, datagram.MRFlags(e.Block()), false)
	}
	errno := 0
	if err != nil {
		errno = errnoOf(err)
	}
	x.out.answer(ipc.MakeEntry(ipc.OpExposed, 0, 0, e.Socket(), 0, uint32(errno), uint32(c), uint32(c>>32), e.Token()))
	return nil
}

// expose makes a region of the session's memory. The caller holds mu.
func (x *session) expose(a *appSocket, off, n uint32, remote netip.Addr, flags datagram.MRFlags, waits bool) (datagram.Cookie, error) {
	mem := x.piece(off, n)
	switch {
	case mem == nil:
		return 0, socket.ErrFault
	case x.out.crowded():
		return 0, datagram.ErrWouldBlock
	}
	if err := x.svc.hasMemory(x.user); err != nil {
		return 0, err
	}
	x.exposes.Store(true) // before the application can end the region
	return a.s.Expose(mem, remote, flags, waits)
}

// TakeFrees is for node.Server.
func (s *Service) TakeFrees() {
	for _, x := range s.all() {
		if x.exposes.Load() {
			x.takeFrees()
		}
	}
}

// takeFrees takes what was submitted and is no message.
func (x *session) takeFrees() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.overLocked() != nil {
		return
	}
	if x.bad = x.takePrompts(0); x.bad != nil {
		x.poke() // the event loop finds the same error and has the session end
	}
}

// takePrompts takes what is no message from the n-th submission on: the message there has to
// wait, and what the application sends to one peer shall not keep it from receiving from
// others. The caller holds mu.
func (x *session) takePrompts(n int) error {
	ready, err := x.sq.Refresh()
	if err != nil {
		return err
	}
	head := x.sq.Head()
	if done := int(x.ahead - min(x.ahead, head)); done > n {
		n = done
	}
	for ; n < ready; n++ {
		e := x.sq.Peek(n)
		if !prompt(e.Op()) {
			continue
		}
		if err := x.takePrompt(&e); err != nil {
			return err
		}
	}
	x.ahead = max(x.ahead, head+uint64(ready))
	x.out.show()
	return nil
}
