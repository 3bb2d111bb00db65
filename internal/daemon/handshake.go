package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/datagram"
)

// Bounds of the handshake.
const (
	maxOpening  = 256 // connections that have not said Hello
	openTimeout = time.Second
)

// opening is a connection whose Hello has not come. When there are too many,
// the oldest of the user who has most of them is closed: a user who opens
// connections and says nothing must not use up the slots of others.
type opening struct {
	c   *ipc.Conn
	uid uint32
}

// accept takes in applications.
func (s *Service) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) && s.moving.Load() != nil {
			return
		}
		if err != nil { // an error such as EMFILE: connections wait in the listen queue
			s.log.Warn("cannot accept applications", zap.Error(err))
			time.Sleep(50 * time.Millisecond)
			continue
		}
		s.welcome(&opening{c: ipc.NewConn(c)})
	}
}

// welcome shakes hands with an application and serves it, or closes the connection.
func (s *Service) welcome(o *opening) {
	cred, err := o.c.Peer()
	if o.uid = cred.UID; err != nil || !s.enter(o) {
		_ = o.c.Close()
		return
	}
	s.entering.Add(1)
	s.work.Go(func() {
		x, err := s.open(o, cred)
		switch {
		case errors.Is(err, errMoving):
		case err != nil:
			_ = o.c.Close()
			if ce := s.log.Check(zap.InfoLevel, "application refused"); ce != nil && !errors.Is(err, errSilent) {
				ce.Write(zap.Int("pid", cred.PID), zap.Uint32("uid", cred.UID), zap.Error(err))
			}
		default:
			x.serve()
		}
		s.entering.Done()
	})
}

// enter lists a connection that has to say Hello. It is false when the service
// is closed.
func (s *Service) enter(o *opening) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.opening) >= maxOpening {
		count := make(map[uint32]int)
		most := s.opening[0].uid
		for _, e := range s.opening {
			if count[e.uid]++; count[e.uid] > count[most] {
				most = e.uid
			}
		}
		i := slices.IndexFunc(s.opening, func(e *opening) bool { return e.uid == most })
		_ = s.opening[i].c.Close()
		s.opening = slices.Delete(s.opening, i, i+1)
	}
	s.opening = append(s.opening, o)
	return true
}

func (s *Service) entered(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.opening, o); i >= 0 {
		s.opening = slices.Delete(s.opening, i, i+1)
	}
}

// errSilent: somebody connected and did not say Hello.
var errSilent = errors.New("rds: no Hello")

// open shakes hands with an application.
func (s *Service) open(o *opening, cred ipc.Credentials) (*session, error) {
	c := o.c
	_ = c.SetDeadline(time.Now().Add(openTimeout))
	c.Bound()
	var hello ipc.Hello
	s.rush(o)
	err := c.Receive(&hello)
	s.entered(o)
	if err != nil {
		if s.keeps(o, err) {
			return nil, errMoving
		}
		return nil, fmt.Errorf("%w: %w", errSilent, err)
	}
	refuse := func(err error) (*session, error) {
		r := failed(0, err)
		_ = c.Send(&ipc.Welcome{Version: ipc.Version, Error: r.Error, Errno: r.Errno})
		return nil, err
	}
	if hello.Protocol != ipc.Protocol || hello.Version != ipc.Version {
		return refuse(fmt.Errorf("version %d of %q, want %d: %w", hello.Version, hello.Protocol, ipc.Version, datagram.ErrNotSupported))
	}
	cfg := s.config()
	x := &session{
		svc: s, node: s.node, cred: cred, gids: append(cred.Groups, cred.GID), command: command(cred.PID), since: time.Now(), conn: c,
		promised: cfg.SendBudget, budget: int64(cfg.SendBudget) * 3 / 2, congested: make(map[*appSocket]struct{}), done: make(chan struct{}),
		again: slices.Contains(hello.Features, ipc.FeatureAgain), spills: slices.Contains(hello.Features, ipc.FeatureSpill),
		moves: slices.Contains(hello.Features, ipc.FeatureMoves), slots: slices.Contains(hello.Features, ipc.FeatureSlots),
		owner: ownerOf(&cred, hello.Secret),
	}
	x.regions.sess = x
	s.lookAgain(cred.UID)
	if err := s.reserve(x); err != nil {
		return refuse(err)
	}
	s.node.Attached(x.owner)
	files, err := x.share(ipc.Layout{
		Submissions: ringEntries, Completions: ringEntries, Sockets: cfg.MaxSockets, Data: dataRing, Send: cfg.SendArena,
		Receive: receiveArea(cfg.ReceiveArena, cfg.ReceiveBacklog, s.node.Overrun()), Memory: cfg.MemoryArena,
	}, cfg.ReceiveArena)
	if err != nil {
		s.release(x)
		return refuse(err)
	}
	x.log = s.log.With(zap.Uint64("session", x.id), zap.Int("pid", cred.PID), zap.Uint32("uid", cred.UID), zap.String("command", x.command))
	if err := s.enlist(x); err != nil { // before the application hears of success: its next call may depend on the session being listed
		ipc.CloseFiles(files[3:])
		x.end(err)
		return nil, err
	}
	features := x.node.Transports()
	features = append(features, ipc.FeatureAgain, ipc.FeatureExpires, ipc.FeatureSpill, ipc.FeatureMoves, ipc.FeatureSlots)
	if x.node.Xrc != nil {
		features = append(features, ipc.FeatureObjects)
	}
	if x.node.Operates() {
		features = append(features, ipc.FeatureRDMA, ipc.FeatureRegions)
	}
	features = slices.DeleteFunc(features, func(f string) bool { return !slices.Contains(hello.Features, f) })
	err = c.Send(&ipc.Welcome{
		Version: ipc.Version, Features: features, Session: x.id, SendBuffer: s.node.Config.SendBuffer, ReceiveBuffer: s.node.Config.ReceiveBuffer, Linger: s.node.Config.Linger,
		SendBudget: x.promised,
	}, files...)
	ipc.CloseFiles(files[3:])
	_ = c.SetDeadline(time.Time{})
	if err != nil {
		x.end(err)
		return nil, err
	}
	x.log.Info("application attached")
	return x, nil
}

// share makes the session's memory, of which receive bytes are for what it has received,
// as a rule, and doorbells. The files are those of a
// Welcome.
func (x *session) share(l ipc.Layout, receive int) ([]*os.File, error) {
	seg, f, err := ipc.NewSegment(l)
	if err != nil {
		return nil, err
	}
	self, ear, err := x.conn.NewWatchedBell()
	if err != nil {
		f.Close()
		_ = seg.Close()
		return nil, err
	}
	bell, theirs, err := x.conn.NewBell()
	if err != nil {
		f.Close()
		_ = self.Close()
		_ = ear.Close()
		_ = seg.Close()
		return nil, err
	}
	seg.Taking().Store(1)
	x.equip(seg, f, receive, self, ear, bell)
	return []*os.File{f, x.svc.tableFD, self.File(), theirs.File()}, nil
}

// equip gives the session its memory and doorbells, which belong to it from then on.
func (x *session) equip(seg *ipc.Segment, f *os.File, receive int, self *ipc.Bell, ear *ipc.WatchedEar, bell *ipc.Bell) {
	x.seg, x.segFile = newSharedSegment(seg), f
	x.seg.gone = func() { x.svc.unweigh(x.user, x.seg) }
	x.seg.file, _ = ipc.Duplicate(f) // without it the segment counts as untouched
	x.mem = newReceiveMemory(x, receive)
	x.listen(self, ear)
	x.sleeps, x.space, x.maps = seg.DaemonSleeps(), seg.WantSpace(), seg.WantMaps()
	x.out.init(x, bell)
	x.sq, x.data, x.bodies = seg.Submitted(), seg.DataArea(), seg.SendArea()
	x.memory, x.aside = seg.MemoryArea(), make(chan struct{}, maxBeside)
}

// reserve counts a session in, if the limits allow it. Nobody sees it before
// enlist.
func (s *Service) reserve(x *session) error {
	cfg := s.config()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch uid := x.cred.UID; {
	case s.closed || s.draining.Load():
		return net.ErrClosed
	case s.live >= cfg.MaxSessions:
		return fmt.Errorf("%d sessions are the limit: %w", cfg.MaxSessions, datagram.ErrTooMany)
	case s.sessionsOfLocked(uid) >= cfg.MaxSessionsPerUID:
		return fmt.Errorf("%d sessions are the limit for user %d: %w", cfg.MaxSessionsPerUID, uid, datagram.ErrTooMany)
	}
	if u := s.users[x.cred.UID]; u != nil {
		if err := s.hasMemory(u); err != nil {
			return err
		}
	}
	s.next++
	x.id = s.next
	s.live++
	x.user = s.userLocked(x.cred.UID)
	x.user.sessions++
	x.holds = 1
	x.queue.limit = int64(cfg.ReceiveBacklog)
	x.queue.open(s.node.Xrc, fmt.Sprintf("application %d", x.id))
	return nil
}

// enlist shows a session that is complete.
func (s *Service) enlist(x *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.sessions[x.id] = x
	x.user.weighLocked(x)
	x.changed.Store(time.Now().UnixNano())
	return nil
}

// release is reserve's other half.
func (s *Service) release(x *session) {
	x.queue.end()
	s.node.RestTold(&x.heard) // before sweep misses the session
	s.mu.Lock()
	delete(s.sessions, x.id)
	last := s.releaseLocked(x)
	s.mu.Unlock()
	if last {
		s.node.Detached(x.owner)
	}
}

// releaseLocked gives back what keeps a session counted, and tells whether it was the last.
func (s *Service) releaseLocked(x *session) (last bool) {
	if x.holds--; x.holds > 0 {
		return false
	}
	s.live--
	s.endLocked(x)
	return true
}

// command is the name of a process.
func command(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
