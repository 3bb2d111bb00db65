package rds

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
)

// A daemon that stops in peace leaves submissions on the ring that it has no time for,
// and says so. With ClientConfig.Reconnect they are submitted to the next daemon, in
// front of what is sent then. One that was killed says nothing: what it has not taken
// and what it was about to take look the same, so nothing is submitted twice.

// unsent is what a socket has to submit again.
type unsent struct {
	mu   sync.Mutex // guards list; a leaf
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

// salvage collects what a daemon that has left did not take, for its sockets.
func (t *attachment) salvage() {
	if !t.c.cfg.Reconnect || !t.seg.Left().IsSet() {
		return
	}
	u := &t.submission
	u.mu.Lock()
	entries := u.ring.Left()
	u.mu.Unlock()
	left := make(map[*clientSocket][]unsentMessage)
	for i := range entries {
		e := &entries[i]
		s := t.socket(e.Socket())
		area := u.data
		switch e.Op() {
		case ipc.OpSend:
		case ipc.OpSendBlock:
			area = u.bodies
		default:
			continue
		}
		remote := *t.origin(e.Peer())
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
				m.limit = heard(a.Expires)
			}
		}
		left[s] = append(left[s], m)
	}
	for s, list := range left {
		s.unsent.mu.Lock()
		s.unsent.list = append(list, s.unsent.list...) // messages that this daemon was not given come behind
		s.unsent.mu.Unlock()
	}
}

// sendAgain submits what earlier daemons have left. Its error is ErrDaemonLost, or that
// of the first message that this daemon does not take.
func (s *clientSocket) sendAgain(h *half) error {
	s.unsent.mu.Lock()
	list := s.unsent.list
	s.unsent.list = nil
	s.unsent.mu.Unlock()
	for i := range list {
		err := s.sendOneAgain(h, &list[i])
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrDaemonLost) {
			s.fateAgain(&list[i])
			continue
		}
		s.unsent.mu.Lock()
		s.unsent.list = append(list[i:len(list):len(list)], s.unsent.list...)
		s.unsent.mu.Unlock()
		return err
	}
	return nil
}

// fateAgain reports that a message cannot be sent again: the new daemon does not reach its
// destination, or knows no time limits, or the region that it offers has ended.
func (s *clientSocket) fateAgain(m *unsentMessage) {
	if m.notify || s.recvErrOn.Load() {
		s.fate(conn.Fate{Token: m.token, Status: conn.Dropped})
	}
}

func (s *clientSocket) sendOneAgain(h *half, m *unsentMessage) error {
	if m.gone {
		return ErrInvalid
	}
	ctx := context.Background() // the daemon's end ends all waits
	t := h.t
	peer, err := t.resolve(ctx, s.addr.Addr(), m.to.Addr())
	if err != nil {
		return err
	}
	n := len(m.data)
	d := &destination{t, m.to.Addr(), peer}
	o := &Outgoing{Notify: m.notify, Token: m.token, Expires: m.limit}
	var x *special
	if o.about() {
		x = new(special)
		if err := x.describe(h, o); err != nil {
			return err
		}
		x.begin(h, m.to, o)
	}
	submit := func() error {
		if n <= conn.InlineMax {
			return t.put(h.entry(ipc.OpSend, d, m.to.Port(), o, n, x), x.said(), m.data)
		}
		b := t.alloc(n)
		if b == nil {
			return errFull
		}
		copy(b.B, m.data)
		err := t.putBuffer(h.entry(ipc.OpSendBlock, d, m.to.Port(), o, n, x), b, x.said())
		if err != nil {
			b.Release()
		}
		return err
	}
	h.account.Admit(n)
	t.budget.account.Admit(cost(n))
	for {
		w := t.space.add()
		t.want.Set()
		err := submit()
		if errors.Is(err, errFull) {
			if err = t.wait(ctx, w, false); err == nil {
				t.space.done(w)
				continue
			}
		}
		t.space.done(w)
		return err
	}
}
