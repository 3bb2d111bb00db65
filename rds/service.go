package rds

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/ipc"
)

// Service lets other processes use a node's sockets: applications attach to
// its Unix socket and share the node's connections. docs/IPC.md describes what
// goes on between the two.
//
// A Service trusts no application. What one does wrong ends its own session.
type Service struct {
	node     *Node
	log      *zap.Logger
	listener *net.UnixListener
	file     *control.SocketFile // nil: the listener was given
	table    *ipc.Table
	tableFD  *os.File
	limits   atomic.Pointer[ServiceConfig]
	draining atomic.Bool
	opening  chan struct{} // handshakes under way

	mu       sync.Mutex
	closed   bool
	sessions map[uint64]*session
	ofUID    map[uint32]int
	next     uint64
	work     sync.WaitGroup
}

// Bounds of the handshake.
const (
	maxOpening  = 64
	openTimeout = time.Second
)

// Sizes of a session's rings. The data ring holds a message of conn.InlineMax
// for each 64 submissions; smaller ones fill the ring of submissions first.
const (
	ringEntries = 4096
	dataRing    = 1 << 20
)

// NewService starts serving n's sockets. Close it before the node.
func NewService(n *Node, cfg ServiceConfig) (*Service, error) {
	fail := func(err error) (*Service, error) { return nil, &OpError{Op: "serve", Err: err} }
	if err := cfg.Validate(); err != nil {
		return fail(err)
	}
	cfg.setDefaults(n)
	s := &Service{
		node: n, log: cfg.Logger, listener: cfg.Listener, opening: make(chan struct{}, maxOpening),
		sessions: make(map[uint64]*session), ofUID: make(map[uint32]int),
	}
	s.limits.Store(&cfg)
	var err error
	if s.table, s.tableFD, err = ipc.NewTable(n.generation); err != nil {
		return fail(err)
	}
	if s.listener == nil {
		if s.listener, s.file, err = control.Listen(ipc.Network, cfg.Path, cfg.Mode); err != nil {
			s.tableFD.Close()
			return fail(err)
		}
	}
	n.mu.Lock()
	if n.ending || !n.service.CompareAndSwap(nil, s) {
		n.mu.Unlock()
		s.unlisten()
		s.tableFD.Close()
		return fail(errors.New("the node is closed, or served already"))
	}
	peers := n.index.Load()
	n.mu.Unlock()
	if peers != nil {
		for _, p := range *peers {
			s.show(p)
			p.mu.Lock()
			s.showMap(p)
			p.mu.Unlock()
		}
	}
	s.work.Go(s.accept)
	return s, nil
}

// config is the present configuration.
func (s *Service) config() *ServiceConfig { return s.limits.Load() }

// Reload replaces the limits on sessions and sockets, the budgets and the
// rules for ports. They count for what is attached or bound from then on; the
// socket, its mode and the logger stay as they are.
func (s *Service) Reload(cfg ServiceConfig) error {
	old := s.config()
	cfg.Path, cfg.Listener, cfg.Mode, cfg.Logger = old.Path, old.Listener, old.Mode, old.Logger
	if err := cfg.Validate(); err != nil {
		return &OpError{Op: "reload", Err: err}
	}
	cfg.setDefaults(s.node)
	s.limits.Store(&cfg)
	return nil
}

// Sessions lists the attached applications, oldest first.
func (s *Service) Sessions() []SessionInfo {
	var out []SessionInfo
	for _, x := range s.all() {
		out = append(out, x.info())
	}
	slices.SortFunc(out, func(a, b SessionInfo) int { return int(int64(a.ID) - int64(b.ID)) })
	return out
}

func (s *Service) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*session, 0, len(s.sessions))
	for _, x := range s.sessions {
		out = append(out, x)
	}
	return out
}

// Drain refuses new sessions and new sockets and waits until everything that
// applications have sent is acknowledged, at most until the node's linger time
// has passed. Its error holds a *DroppedError if something was left.
func (s *Service) Drain() error {
	s.draining.Store(true)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		left DroppedError
	)
	for _, x := range s.all() {
		x.mu.Lock()
		_ = x.catchUp()
		socks := slices.Clone(x.sockets)
		x.mu.Unlock()
		for _, a := range socks {
			if a == nil || a.s.account.Messages() == 0 {
				continue
			}
			wg.Go(func() {
				a.s.awaitAcks(max(0, s.node.cfg.Linger))
				mu.Lock()
				left.Messages += a.s.account.Messages()
				left.Bytes += a.s.account.Bytes()
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if left.Messages > 0 {
		return &OpError{Op: "drain", Err: &left}
	}
	return nil
}

// Close ends all sessions: their applications' calls fail at once.
func (s *Service) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return &OpError{Op: "close", Err: net.ErrClosed}
	}
	s.closed = true
	s.mu.Unlock()
	s.draining.Store(true)
	s.unlisten()
	for _, x := range s.all() {
		x.end(net.ErrClosed)
	}
	s.work.Wait()
	s.node.service.Store(nil)
	s.tableFD.Close()
	return nil // the table stays mapped until nobody reads it: the node may still write
}

func (s *Service) unlisten() {
	if s.file != nil {
		s.file.Remove()
	}
	_ = s.listener.Close()
}

// accept takes in applications.
func (s *Service) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as EMFILE: those who knock wait in the queue
			s.log.Warn("cannot accept applications", zap.Error(err))
			s.pause()
			continue
		}
		select {
		case s.opening <- struct{}{}:
		default:
			c.Close() // too many who do not get on with it
			continue
		}
		s.work.Go(func() {
			x, err := s.open(ipc.NewConn(c))
			<-s.opening
			if err != nil {
				c.Close()
				s.log.Info("application refused", zap.Error(err))
				return
			}
			s.work.Go(x.run)
			x.calls()
		})
	}
}

// pause waits before accept tries again.
func (s *Service) pause() { time.Sleep(50 * time.Millisecond) }

// open shakes hands with an application.
func (s *Service) open(c *ipc.Conn) (*session, error) {
	_ = c.SetDeadline(time.Now().Add(openTimeout))
	c.Bound()
	var hello ipc.Hello
	if err := c.Receive(&hello); err != nil {
		return nil, err
	}
	refuse := func(err error) (*session, error) {
		r := failed(0, err)
		_ = c.Send(&ipc.Welcome{Version: ipc.Version, Error: r.Error, Errno: r.Errno})
		return nil, err
	}
	if hello.Protocol != ipc.Protocol || hello.Version != ipc.Version {
		return refuse(fmt.Errorf("version %d of %q, want %d: %w", hello.Version, hello.Protocol, ipc.Version, ErrNotSupported))
	}
	cred, err := c.Peer()
	if err != nil {
		return refuse(err)
	}
	cfg := s.config()
	x := &session{
		svc: s, node: s.node, cred: cred, gids: append(cred.Groups, cred.GID), command: command(cred.PID), since: time.Now(), conn: c,
		budget: int64(cfg.SendBudget), flows: make(map[*peer]*flow), congested: make(map[*appSocket]struct{}), done: make(chan struct{}),
	}
	if err := s.enlist(x); err != nil {
		return refuse(err)
	}
	files, err := x.share(ipc.Layout{
		Submissions: ringEntries, Completions: ringEntries, Sockets: cfg.MaxSockets,
		Data: dataRing, Send: cfg.SendArena, Receive: cfg.ReceiveArena,
	})
	if err != nil {
		s.forget(x)
		return refuse(err)
	}
	err = c.Send(&ipc.Welcome{
		Version: ipc.Version, Session: x.id, SendBuffer: s.node.cfg.SendBuffer, ReceiveBuffer: s.node.cfg.ReceiveBuffer, Linger: s.node.cfg.Linger,
	}, files...)
	ipc.CloseFiles(files[:1]) // the segment's; and our copy of its ear, below
	ipc.CloseFiles(files[3:])
	if err != nil {
		s.forget(x)
		_ = x.ear.Close()
		_ = x.self.Close()
		_ = x.out.bell.Close()
		x.seg.drop()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	x.log = s.log.With(zap.Uint64("session", x.id), zap.Int("pid", cred.PID), zap.Uint32("uid", cred.UID), zap.String("command", x.command))
	x.log.Info("application attached")
	return x, nil
}

// share makes the session's memory and doorbells. The files are those of a
// Welcome.
func (x *session) share(l ipc.Layout) ([]*os.File, error) {
	seg, f, err := ipc.NewSegment(l)
	if err != nil {
		return nil, err
	}
	self, ear, err := ipc.NewBell()
	if err != nil {
		f.Close()
		_ = seg.Close()
		return nil, err
	}
	bell, theirs, err := ipc.NewBell()
	if err != nil {
		f.Close()
		_ = self.Close()
		_ = ear.Close()
		_ = seg.Close()
		return nil, err
	}
	x.seg = newSharedSegment(seg)
	x.mem = newReceiveMemory(x.seg)
	x.self, x.ear = self, ear
	x.sleeps, x.space, x.maps = seg.DaemonSleeps(), seg.WantSpace(), seg.WantMaps()
	x.out.bell, x.out.sleeps, x.out.want, x.out.ring = bell, seg.ApplicationSleeps(), seg.WantCompletions(), seg.Complete()
	x.sq, x.data, x.bodies = seg.Submitted(), seg.DataArea(), seg.SendArea()
	return []*os.File{f, x.svc.tableFD, self.File(), theirs.File()}, nil
}

// enlist counts a session in, if the limits allow it.
func (s *Service) enlist(x *session) error {
	cfg := s.config()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch uid := x.cred.UID; {
	case s.closed || s.draining.Load():
		return net.ErrClosed
	case len(s.sessions) >= cfg.MaxSessions:
		return fmt.Errorf("%d sessions are the limit: %w", cfg.MaxSessions, ErrTooMany)
	case s.ofUID[uid] >= cfg.MaxSessionsPerUID:
		return fmt.Errorf("%d sessions are the limit for user %d: %w", cfg.MaxSessionsPerUID, uid, ErrTooMany)
	}
	s.next++
	x.id = s.next
	s.sessions[x.id] = x
	s.ofUID[x.cred.UID]++
	return nil
}

// forget is enlist's other half.
func (s *Service) forget(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.id] == nil {
		return
	}
	delete(s.sessions, x.id)
	if s.ofUID[x.cred.UID]--; s.ofUID[x.cred.UID] == 0 {
		delete(s.ofUID, x.cred.UID)
	}
}

// command is the name of a process.
func command(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// show puts a connection into the table.
func (s *Service) show(p *peer) {
	if p.index < ipc.MaxPeers {
		if err := s.table.SetPeer(int(p.index), p.local.addr, p.remote); err != nil {
			s.log.Warn("a peer that applications cannot reach", zap.Stringer("peer", p.remote), zap.Error(err))
		}
	}
}

// showMap puts a connection's congestion map, which the caller has locked,
// into the table.
func (s *Service) showMap(p *peer) {
	if p.index < ipc.MaxPeers {
		s.table.SetMap(int(p.index), p.core.RemoteMap())
	}
}

// mapNews tells the applications that wait for it that a map has arrived.
func (s *Service) mapNews() {
	for _, x := range s.all() {
		x.mapNews()
	}
}

// serves tells whether applications may bind to an address.
func (n *Node) serves(a netip.Addr) bool {
	return len(n.cfg.Addresses) == 0 || slices.ContainsFunc(n.cfg.Addresses, func(b netip.Addr) bool { return b.Unmap() == a })
}
