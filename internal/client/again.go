package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// A daemon that ends leaves submissions on the ring. It says which ones before it takes
// any, so that those are known which it has not touched, however it ended. With
// config.Client.Reconnect they are submitted to the next daemon, in front of what is sent
// then. What the daemon had begun to take may have been sent, and is not sent twice.

// unsent is what a socket has to submit again.
type unsent struct {
	mu   lockorder.Mutex[unsent] // guards list; a leaf
	list []unsentMessage
}

type unsentMessage struct {
	to     netip.AddrPort
	data   []byte
	notify bool
	token  uint64
	limit  time.Time // deadline of the message; zero: none
	gone   bool      // the region that the message offers has ended with the daemon
}

// takeRest receives what is on the ring of a daemon that has ended, and what it has
// spilled: whoever listens hears of the end, and leaves the rest to this.
func (t *attachment) takeRest() {
	l := &t.listening
	<-l.role
	defer func() { l.role <- struct{}{} }()
	for range maxRest {
		some, err := t.turn()
		if err != nil {
			return
		}
		if !some {
			t.seg.Spilled(l.d.spilled, l.d.take)
			l.d.finish()
			return
		}
	}
}

// maxRest bounds the turns: a daemon that has cut this application off for a reason of
// its own may still be at the ring.
const maxRest = 64

// salvage collects what a daemon that has ended did not touch, for its sockets. A daemon
// ends a session before the application hears of it.
func (t *attachment) salvage(cause error) {
	taking := t.seg.Taking().Load()
	if !t.c.config.Reconnect || taking == 0 || !hungUp(cause) {
		return
	}
	u := &t.submission
	u.mu.Lock()
	entries := u.ring.Left(taking - 1)
	u.mu.Unlock()
	left := make(map[*Socket][]unsentMessage)
	for i := range entries {
		e := &entries[i]
		s, h := t.owner(e.Socket())
		area := u.data
		switch e.Op() {
		case ipc.OpSend:
		case ipc.OpSendBlock:
			area = u.bodies
		default:
			continue
		}
		remote := *t.origin(e.Peer()).remote
		if s == nil || !remote.IsValid() {
			continue
		}
		m := unsentMessage{
			to: netip.AddrPortFrom(remote, e.Port()), data: slices.Clone(area[e.Offset():][:e.Length()]),
			notify: e.Flags()&ipc.FlagNotify != 0, token: e.Token(),
		}
		if e.Flags()&ipc.FlagAbout != 0 {
			var a ipc.About
			if !a.Load(u.data, e.Block()) || a.Flags&(ipc.AboutRDMA|ipc.AboutAtomic) != 0 {
				continue // loseOperations tells of its end
			}
			if m.gone = a.Flags&ipc.AboutDest != 0; a.Flags&ipc.AboutExpires != 0 {
				m.limit = ipc.HearLimit(a.Expires)
			}
		}
		if m.notify {
			m.token, _ = h.asked.told(m.token)
		}
		left[s] = append(left[s], m)
	}
	for s, list := range left {
		s.unsent.mu.Lock()
		s.unsent.list = append(list, s.unsent.list...) // messages that this daemon was not given come behind
		s.unsent.mu.Unlock()
	}
}

// hungUp tells whether an attachment has ended because the daemon's end of it was closed.
func hungUp(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ECONNRESET)
}

// rebind continues the socket on another daemon.
func (s *Socket) rebind(t *attachment) {
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	s.failed.Store(nil)
	h, err := s.ask(ctx, t, s.addr)
	if err == nil {
		t.expect(s, h)
	}
	options := map[string]int64{ipc.OptionSendBuffer: s.sndbuf.Load(), ipc.OptionReceiveBuffer: s.ReceiveBuffer.Load()}
	if s.RecvErrOn.Load() {
		options[ipc.OptionRecvErr] = 1
	}
	for name, v := range options {
		if err == nil {
			_, err = h.tell(ipc.Request{Op: ipc.CallOption, Option: name, Value: v})
		}
	}
	if to := s.ToPort.Load(); to != nil && err == nil {
		_, err = h.tell(ipc.Request{Op: ipc.CallConnect, Addr: *to})
	}
	if err == nil {
		err = s.sendAgain(h) // before use lets anybody send what comes later
	}
	if errors.Is(err, net.ErrClosed) { // the daemon stops already: the attachment is about to end
		err = datagram.ErrDaemonLost
	}
	switch {
	case h == nil:
	case errors.Is(err, datagram.ErrDaemonLost):
		<-t.gone
		t.end(err) // returns when what is on the ring has been taken
		s.inherit(h)
	default:
		s.use(h)
		if s.Closed.Load() { // Close may not have found this half
			_ = s.leave(h)
		}
		select {
		case <-t.gone:
			// It has ended meanwhile. If the sockets were told before this one had its half, that
			// has ended without being told.
			t.end(err) // returns when they were told
			if s.half.CompareAndSwap(h, nil) {
				s.inherit(h)
			}
		default:
		}
	}
	if err != nil && !errors.Is(err, datagram.ErrDaemonLost) {
		s.failed.Store(&err)
	}
	s.Readers.Wake(-1)
	s.writers.Wake(-1)
}

// inherit gives the socket what a daemon has put on the ring for a half that has ended before the
// socket had it. The loss is told behind that, once more if it was told before.
func (s *Socket) inherit(h *half) {
	h.att.register(s, h, false)
	s.Queue.CutOff(s.losses.Add(1))
	s.loseOperations(h)
	s.loseFates(h)
}

// sendAgain submits what earlier daemons have left. Its error is ErrDaemonLost, or that
// of the first message that this daemon does not take.
func (s *Socket) sendAgain(h *half) error {
	s.unsent.mu.Lock()
	list := s.unsent.list
	s.unsent.list = nil
	s.unsent.mu.Unlock()
	for i := range list {
		err := s.sendOneAgain(h, &list[i])
		if err == nil {
			continue
		}
		if !errors.Is(err, datagram.ErrDaemonLost) {
			s.fateAgain(&list[i])
			continue
		}
		h.att.end(err) // what it has not touched of those before goes first
		s.unsent.mu.Lock()
		s.unsent.list = append(s.unsent.list, list[i:]...)
		s.unsent.mu.Unlock()
		return err
	}
	return nil
}

// fateAgain reports that a message cannot be sent again: the new daemon does not reach its
// destination, or knows no time limits, or the region that it offers has ended.
func (s *Socket) fateAgain(m *unsentMessage) {
	if m.notify || s.RecvErrOn.Load() {
		s.Fate(conn.Fate{Token: m.token, Status: conn.Dropped})
	}
}

func (s *Socket) sendOneAgain(h *half, m *unsentMessage) error {
	if m.gone {
		return datagram.ErrInvalid
	}
	ctx := context.Background() // the daemon's end ends all waits
	t := h.att
	peer, err := t.resolve(ctx, s.addr.Addr(), m.to.Addr())
	if err != nil {
		return err
	}
	n := len(m.data)
	d := &destination{t, m.to.Addr(), peer}
	o := &datagram.Outgoing{Notify: m.notify, Token: m.token, Expires: m.limit}
	var x *special
	if socket.Says(o) {
		x = new(special)
		if err := x.describe(h, o); err != nil {
			return err
		}
		x.begin(h, m.to, o)
	}
	h.account.Admit(n)
	t.budget.account.Admit(cost(n))
	for {
		w := t.space.Add()
		t.want.Set()
		err := h.putCopy(d, m.to.Port(), o, m.data, x)
		if errors.Is(err, errFull) {
			if err = t.wait(ctx, w, false); err == nil {
				t.space.Done(w)
				continue
			}
		}
		t.space.Done(w)
		return err
	}
}
