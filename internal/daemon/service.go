package daemon

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// Service lets other processes use a node's sockets: applications attach to
// its Unix socket and share the node's connections. docs/IPC.md describes what
// goes on between the two.
//
// A Service trusts no application. What one does wrong ends its own session.
type Service struct {
	node     *node.Node
	log      *zap.Logger
	listener *net.UnixListener
	file     *control.SocketFile // nil: the listener was given
	place    *ipc.InProcess      // not nil: applications are in the same process, and there is no listener
	table    *ipc.Table
	tableFD  *os.File
	limits   atomic.Pointer[config.Service]
	draining atomic.Bool
	moving   atomic.Pointer[halt]             // not nil: calls and connections wait, since another process is to take the service's place
	loops    *gnetloop.Loops                  // where submissions are taken
	ownLoops bool                             // loops are not the node's
	cut      chan struct{}                    // closed when no socket may linger any more
	serverMu lockorder.Mutex[serviceServerMu] // guards the table's word on which wire serves each peer; locked before node.Node.Mu

	mu        lockorder.Mutex[serviceMu] // guards the fields below; a leaf
	closed    bool
	opening   []*opening // handshakes that wait for a Hello, oldest first
	sessions  map[uint64]*session
	live      int // sessions, and former ones with sockets that linger
	users     map[uint32]*user
	lingering map[*appSocket]struct{}
	orphans   []*session            // what a predecessor has left of sessions that had ended, until takeUp
	left      datagram.DroppedError // messages of sockets that ended during Close, whose fates were not known by then
	next      uint64
	work      sync.WaitGroup
	kept      []*opening                      // while moving: connections that have said nothing yet
	accepting sync.WaitGroup                  // the goroutine of accept
	resuming  sync.WaitGroup                  // sessions that were taken over and are not served yet
	entering  sync.WaitGroup                  // handshakes
	quit      chan struct{}                   // closed when Close begins
	watching  sync.Once                       // starts watchPages
	looking   lockorder.Mutex[serviceLooking] // one look at a time at the memory that users have touched; locked before session.mu
}

// Sizes of a session's rings. The data ring holds a message of conn.InlineMax
// for each 64 submissions; smaller ones fill the ring of submissions first.
const (
	ringEntries = 4096
	dataRing    = 1 << 20
)

// New is NewService of package rds.
func New(n *node.Node, cfg config.Service) (*Service, error) { return newHeir(n, cfg, nil) }

// newHeir is New for a service that takes over what another process has left; nil:
// nothing.
func newHeir(n *node.Node, cfg config.Service, in *estate) (*Service, error) {
	fail := func(err error) (*Service, error) { return nil, &datagram.OpError{Op: "serve", Err: err} }
	if err := cfg.Validate(); err != nil {
		return fail(err)
	}
	cfg.SetDefaults()
	if cfg.Logger == nil {
		cfg.Logger = n.Log
	}
	cfg.Logger = n.LogLimit.Logger(cfg.Logger)
	s := &Service{
		node: n, log: cfg.Logger, listener: cfg.Listener, cut: make(chan struct{}), quit: make(chan struct{}),
		sessions: make(map[uint64]*session), users: make(map[uint32]*user),
		lingering: make(map[*appSocket]struct{}),
	}
	s.limits.Store(&cfg)
	var err error
	if s.table, s.tableFD, err = ipc.NewTable(n.Generation); err != nil {
		return fail(err)
	}
	runtime.AddCleanup(s, func(t *ipc.Table) { _ = t.Close() }, s.table)
	s.place = ipc.InProcessAt(cfg.Path)
	if s.loops = n.Loops; s.loops == nil {
		if s.loops, err = gnetloop.NewAwakened(s.place.Loop()); err != nil {
			s.tableFD.Close()
			return fail(err)
		}
		s.ownLoops = true
	}
	if s.listener == nil && s.place == nil {
		if s.listener, s.file, err = control.Listen(ipc.Network, cfg.Path, cfg.Mode); err != nil {
			s.closeLoops()
			s.tableFD.Close()
			return fail(err)
		}
	}
	if in != nil {
		if err := s.inherit(in); err != nil {
			s.closeLoops()
			return fail(err)
		}
	}
	if !n.Serve(s) {
		s.unlisten()
		s.closeLoops()
		s.tableFD.Close()
		return fail(errors.New("the node is closed, or served already"))
	}
	n.EachPeer(func(p *node.Peer) {
		s.Show(p)
		p.Lock()
		s.ShowMap(p)
		s.ShowLongest(p)
		s.ShowCarriage(p)
		p.Unlock()
	})
	if in == nil {
		n.Serving()
		s.begin()
	}
	return s, nil
}

// config is the present configuration.
func (s *Service) config() *config.Service { return s.limits.Load() }

// Reload is Service.Reload of package rds.
func (s *Service) Reload(cfg config.Service) error {
	old := s.config()
	cfg.Path, cfg.Listener, cfg.Mode, cfg.Logger = old.Path, old.Listener, old.Mode, old.Logger
	if err := cfg.Validate(); err != nil {
		return &datagram.OpError{Op: "reload", Err: err}
	}
	cfg.SetDefaults()
	s.limits.Store(&cfg)
	return nil
}

// Sessions is Service.Sessions of package rds.
func (s *Service) Sessions() []info.Session {
	s.node.Tally()
	var out []info.Session
	for _, x := range s.all() {
		out = append(out, x.info())
	}
	slices.SortFunc(out, func(a, b info.Session) int { return int(int64(a.ID) - int64(b.ID)) })
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

// Close is Service.Close of package rds.
func (s *Service) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return &datagram.OpError{Op: "close", Err: net.ErrClosed}
	}
	s.closed = true
	close(s.quit)
	if s.draining.Swap(true) {
		close(s.cut)
	}
	for _, o := range s.opening {
		_ = o.c.Close()
	}
	s.mu.Unlock()
	s.unlisten()
	for _, x := range s.all() {
		x.end(net.ErrClosed)
	}
	s.resuming.Wait()
	s.work.Wait()
	s.closeLoops()
	s.node.Unserve()
	s.tableFD.Close()
	// The table stays mapped until nobody reads it: the node may still write.
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left.Messages > 0 {
		return &datagram.OpError{Op: "close", Err: &left}
	}
	return nil
}

// closeLoops ends the service's own event loops, to which no session listens.
func (s *Service) closeLoops() {
	if s.ownLoops {
		_ = s.loops.Close()
	}
}

func (s *Service) unlisten() {
	if s.file != nil {
		s.file.Remove()
	}
	if s.place != nil {
		s.place.Accept(nil)
	}
	_ = s.listener.Close()
}

// MapNews tells the applications that wait for it that a map has arrived.
func (s *Service) MapNews() {
	for _, x := range s.all() {
		x.mapNews()
	}
}

// AdmissionNews tells all applications, whatever they wait for, that the table says anew
// whether a peer is allowed.
func (s *Service) AdmissionNews() {
	s.table.CountBar()
	for _, x := range s.all() {
		x.maps.Take()
		x.out.event(ipc.OpMaps, 0)
	}
}
