package daemon

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds/datagram"
)

// A socket that was closed lingers for what it has sent: its application waits for the answer to
// its call, or has ended. Such sockets move to the process that takes the daemon's place as others
// do, and linger there for the time that is left.

// lingering is the key of Lingering.
type lingering struct{}

// Lingering is for Bequeath to a process that takes sockets that linger. Another one takes nothing while
// there are any.
func Lingering(ctx context.Context) context.Context { return context.WithValue(ctx, lingering{}, true) }

// legacyLingering is a socket that lingers.
type legacyLingering struct {
	ID         uint32
	Bound      netip.AddrPort
	SendBuffer int
	Left       time.Duration // what is left of its linger time
	Call       uint64        // the application's call that waits for its end; 0: none
}

// legacyOrphans are sockets that linger of an application that has ended.
type legacyOrphans struct {
	Session uint64
	Cred    ipc.Credentials
	Owner   *statefile.Owner
	Command string
	Sockets []legacyLingering
}

// linger lists a socket that is going to end. The session counts against the
// limits until it has: what it has queued is memory all the same.
func (s *Service) linger(a *appSocket) {
	s.mu.Lock()
	s.lingering[a] = struct{}{}
	a.sess.holds++
	a.sess.lingering.Add(1)
	s.mu.Unlock()
}

// lingered is the socket's end; d is what was dropped.
func (s *Service) lingered(a *appSocket, d *datagram.DroppedError) {
	s.mu.Lock()
	delete(s.lingering, a)
	if d != nil && s.closed {
		s.left.Messages += d.Messages
		s.left.Bytes += d.Bytes
	}
	a.sess.user.vacateLocked(a.s.At.Addr)
	last := s.releaseLocked(a.sess)
	s.mu.Unlock()
	if last {
		s.node.Detached(a.sess.owner)
	}
}

// await waits until everything the socket has sent is acknowledged: at most d,
// once the session has ended at most the node's linger time, and not at all
// when the service cuts off what lingers. While the service moves it goes on elsewhere.
func (a *appSocket) await(d time.Duration) {
	s, x := a.s, a.sess
	svc, ended := x.svc, x.done
	until := time.Now().Add(d)
	a.until.Store(&until)
	timer := time.NewTimer(d)
	defer timer.Stop()
	s.Account.Watch(1)
	defer s.Account.Watch(-1)
	for late := d <= 0; ; {
		if h := svc.moving.Load(); h != nil && h.lingers {
			x.park(h)
			continue
		}
		w := s.Writers.Add()
		s.Node.PollAcks(s.At)
		done := s.Account.Messages() == 0
		if done || late {
			s.Writers.Done(w)
			if done {
				s.Writers.Wake(-1) // other senders may wait for the same room
			}
			return
		}
		x.working.Add(-1)
		select {
		case <-w.C:
		case <-timer.C:
			late = true
		case <-svc.cut:
			late = true
		case <-ended:
			ended = nil
			sooner := time.Now().Add(min(time.Until(until), max(0, s.Node.Config.Linger)))
			a.until.Store(&sooner)
			timer.Reset(time.Until(sooner))
		}
		x.working.Add(1)
		s.Writers.Done(w)
	}
}

// answerEnd lingers for a socket that an application has closed, and answers the call.
func (x *session) answerEnd(a *appSocket) {
	r := &ipc.Reply{ID: a.call}
	var err error
	if r.Messages, r.Bytes, err = x.finish(a); err != nil {
		r = failed(a.call, err)
	}
	x.reply(r)
}

// legacyOfLingering describes the sockets that linger. Those of sessions that do not move are orphans.
func (s *Service) legacyOfLingering(st *legacyService) map[*appSocket]bool {
	moves := make(map[uint64]*legacySession)
	for i := range st.Sessions {
		moves[st.Sessions[i].ID] = &st.Sessions[i]
	}
	orphans, all := make(map[uint64]*legacyOrphans), make(map[*appSocket]bool)
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.lingering {
		all[a] = true
		x := a.sess
		send, _ := a.s.Buffers()
		l := legacyLingering{ID: a.id, Bound: a.s.Local(), SendBuffer: send, Left: time.Duration(a.s.Linger.Load())}
		if until := a.until.Load(); until != nil {
			l.Left = time.Until(*until)
		}
		if to := moves[x.id]; to != nil {
			l.Call = a.call
			if !slices.ContainsFunc(to.Sockets, func(s legacySocket) bool { return s.ID == a.id }) { // else its session has ended just now
				to.Lingering = append(to.Lingering, l)
			}
			continue
		}
		o := orphans[x.id]
		if o == nil {
			o = &legacyOrphans{Session: x.id, Cred: x.cred, Owner: x.owner, Command: x.command}
			orphans[x.id] = o
		}
		o.Sockets = append(o.Sockets, l)
	}
	for _, o := range orphans {
		st.Orphans = append(st.Orphans, *o)
	}
	slices.SortFunc(st.Orphans, func(a, b legacyOrphans) int { return int(int64(a.Session) - int64(b.Session)) })
	return all
}

// socketName names a socket of a predecessor's.
type socketName struct {
	session uint64
	socket  uint32
}

// resumeLingering makes the sockets of the predecessor that linger, and returns them by name.
func (s *Service) resumeLingering(st *legacyService) (map[socketName]*appSocket, error) {
	all := make(map[socketName]*appSocket)
	resume := func(x *session, list []legacyLingering) error {
		for _, l := range list {
			a, err := x.resumeLingering(l)
			if err != nil {
				return err
			}
			all[socketName{x.id, l.ID}] = a
			x.resumed = append(x.resumed, a)
		}
		return nil
	}
	for i := range st.Sessions {
		if err := resume(s.sessions[st.Sessions[i].ID], st.Sessions[i].Lingering); err != nil {
			return nil, err
		}
	}
	for i := range st.Orphans {
		o := &st.Orphans[i]
		x := &session{svc: s, node: s.node, id: o.Session, cred: o.Cred, command: o.Command, owner: o.Owner, done: make(chan struct{}), ended: true}
		x.log = s.log.With(zap.Uint64("session", x.id), zap.Int("pid", x.cred.PID), zap.Uint32("uid", x.cred.UID), zap.String("command", x.command))
		close(x.done)
		x.out.closed = true
		if x.owner == nil {
			x.owner = ownerOf(&x.cred, nil)
		}
		s.node.Attached(x.owner)
		s.mu.Lock()
		s.live++
		x.user = s.userLocked(x.cred.UID)
		x.user.sessions++
		s.mu.Unlock()
		if err := resume(x, o.Sockets); err != nil {
			return nil, err
		}
		s.orphans = append(s.orphans, x)
	}
	return all, nil
}

// resumeLingering makes a socket of the session that lingers.
func (x *session) resumeLingering(l legacyLingering) (*appSocket, error) {
	a := &appSocket{sess: x, id: l.ID, call: l.Call}
	a.gone.Store(true)
	s, err := x.node.Lingering(l.Bound, func(s *node.Socket) {
		s.Owner, a.s = a, s
		s.Account.Every = true
	})
	if err != nil {
		return nil, err
	}
	s.Account.SetLimit(l.SendBuffer)
	s.Linger.Store(int64(l.Left))
	x.svc.mu.Lock()
	x.user.occupyLocked(l.Bound.Addr())
	x.svc.mu.Unlock()
	x.svc.linger(a)
	return a, nil
}

// finishResumed begins to wait for the end of sockets that a predecessor has left lingering.
func (x *session) finishResumed() {
	resumed := x.resumed
	x.resumed = nil
	for _, a := range resumed {
		x.beginWork(func() {
			if a.call != 0 {
				x.answerEnd(a)
			} else {
				_, _ = a.finish()
			}
		})
	}
}
