package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/control"
	bequest "github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds"
)

// An upgrade: a second rdsd, the successor, asks the one that runs for all it has, over a
// Unix socket of type SOCK_SEQPACKET that only root and the daemon's own user may use.
//
//	successor                                  daemon
//	    │ ask: versions, addresses ─────────────▶ │ refuses, or ends its links (rds.Node.Bequeath)
//	    │ ◀─────────────── answer, descriptors ── │
//	    │ makes its node, does nothing yet        │
//	    │ ready ────────────────────────────────▶ │
//	    │ ◀──────────────────────────────── go ── │
//	    │ serving ──────────────────────────────▶ │ ends
//	    │ serves                                  │
//
// With go the daemon gives up the lock of its sockets (see servingLock), which the successor
// takes before it says serving: who has the lock serves. Until the daemon has read serving it can
// go on, and does when the successor has ended, refuses, or takes too long, and the daemon has the
// lock again: the successor does nothing that peers or applications could see before it has
// written serving, and one that has the lock and hangs is killed, if it is in sight. A successor whose predecessor ends
// before go gets the lock, and serves: nobody else does. A daemon or successor of a version without the
// lock is known by the process numbers of the two.

// takeoverVersion is that of this exchange.
const takeoverVersion = 1

// Limits of an exchange.
const (
	takeoverAsk        = 5 * time.Second // until the successor has asked
	takeoverAnswerTime = 9 * time.Second // until the daemon has answered a successor
	takeoverStep       = 3 * time.Second // for each further step of the successor: less than an application that attaches waits
	takeoverKill       = 2 * time.Second // until a successor that was killed has ended
	takeoverFDs        = 128             // descriptors in one message
)

// takeoverAskMessage is what a successor asks with.
type takeoverAskMessage struct {
	Version int
	Legacy  int // rds.LegacyVersion
	Place   place
	Lock    bool // the successor serves when it has the lock
	Lingers bool // the successor takes sockets that linger
}

// place is what a successor must have as its predecessor has it.
type place struct {
	Listen                         []string
	Port, XRCPort                  int
	Wire, Socket, Control, Metrics string
}

// takeoverAnswer is the first answer; its descriptors follow in messages of their own.
type takeoverAnswer struct {
	Error  string       // why the daemon goes on by itself
	PID    int          // the daemon's process; the socket's credentials are those of the first daemon, which called listen
	Files  int          // number of descriptors that follow: the state of the rds.Legacy, its files, those of Parts
	Legacy int          // number of files of the rds.Legacy
	Lock   bool         // the daemon gives up the lock with go
	Parts  []passedPart // listening sockets
}

// passedPart is a listening socket besides those of the node.
type passedPart struct {
	Name string // partControl, partMetrics or partTakeover
	Owns bool   // the daemon removes the socket's file when it ends
}

const (
	partControl  = "control"
	partMetrics  = "metrics"
	partTakeover = "takeover"
)

// ownPart is a passedPart of this daemon.
type ownPart struct {
	listening
	name string
}

// takeoverStepMessage is what the two say further.
type takeoverStepMessage struct {
	Step  string // stepReady, stepGo, stepServing
	Error string // the sender gives up
}

const (
	stepReady   = "ready"
	stepGo      = "go"
	stepServing = "serving"
)

// takeoverPath is where a successor asks: beside the socket that applications attach to,
// else beside the control socket; empty: nowhere.
func takeoverPath(socket, control string) string {
	for _, path := range []string{socket, control} {
		if path != none && path != "" {
			return strings.TrimSuffix(path, ".sock") + ".takeover"
		}
	}
	return ""
}

// placeOf is the place of a plan.
func placeOf(p *plan, set *settings, in *inherited) place {
	at := place{
		Port: set.Port, XRCPort: set.XRC.Port, Wire: set.Wire, Metrics: set.Metrics,
		Socket: where(p.service.Path, in.attach), Control: where(p.control.Path, in.control),
	}
	for _, x := range p.prefixes { // one message has no room for all their addresses
		at.Listen = append(at.Listen, x.String())
	}
	for _, a := range p.node.Addresses {
		if !slices.ContainsFunc(p.prefixes, func(x netip.Prefix) bool { return x.Contains(a) }) {
			at.Listen = append(at.Listen, a.String())
		}
	}
	slices.Sort(at.Listen)
	return at
}

// differs names what a successor has otherwise.
func (at *place) differs(other *place) (keys []string) {
	for key, differs := range map[string]bool{
		"listen": !slices.Equal(at.Listen, other.Listen), "port": at.Port != other.Port, "xrc.port": at.XRCPort != other.XRCPort,
		"wire": at.Wire != other.Wire, "socket": at.Socket != other.Socket,
		"control": at.Control != other.Control, "metrics": at.Metrics != other.Metrics,
	} {
		if differs {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// successor is one that has asked, and may.
type successor struct {
	c       *ipc.Conn
	pid     int      // 0: a process of another PID namespace
	locks   bool     // it serves when it has the lock
	lingers bool     // it takes sockets that linger
	process *os.File // nil: not known
}

// takeoverServer takes in successors.
type takeoverServer struct {
	l    *net.UnixListener
	file *control.SocketFile // nil: the daemon has passed it on
	log  *zap.Logger
	at   place
	came chan successor
}

// serveTakeover listens at path, or on a listener of the predecessor.
func serveTakeover(path string, inherited *net.UnixListener, at place, log *zap.Logger) (*takeoverServer, error) {
	t := &takeoverServer{log: log, at: at, came: make(chan successor)}
	if inherited != nil {
		t.l, t.file = inherited, control.Adopt(path)
		t.l.SetUnlinkOnClose(false)
	} else {
		var err error
		if t.l, t.file, err = control.Listen(ipc.Network, path, fs.FileMode(0o600)); err != nil {
			return nil, err
		}
	}
	go t.run()
	return t, nil
}

// run takes one successor after the other. Others wait.
func (t *takeoverServer) run() {
	for {
		u, err := t.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(takeoverPause)
			continue
		}
		c := ipc.NewConn(u)
		s, err := t.ask(c)
		if err != nil {
			t.log.Warn("takeover refused", zap.Int("pid", s.pid), zap.Error(err))
			_ = c.Send(&takeoverAnswer{Error: err.Error()})
			_ = c.Close()
			continue
		}
		s.process = processFile(u, s.pid)
		t.came <- s
	}
}

// takeoverPause is how long run waits when the system has no descriptors.
const takeoverPause = 50 * time.Millisecond

// ask reads what a successor asks for, and judges it.
func (t *takeoverServer) ask(c *ipc.Conn) (s successor, err error) {
	s.c = c
	cred, err := c.Peer()
	if err != nil {
		return s, err
	}
	s.pid = cred.PID
	_ = c.SetDeadline(time.Now().Add(takeoverAsk))
	c.Bound()
	var q takeoverAskMessage
	if err := c.Receive(&q); err != nil {
		return s, err
	}
	s.locks, s.lingers = q.Lock, q.Lingers
	uid := os.Geteuid()
	switch {
	case cred.UID != 0 && int(cred.UID) != uid:
		return s, fmt.Errorf("user %d may not take over from user %d", cred.UID, uid)
	case q.Version != takeoverVersion || q.Legacy != rds.LegacyVersion:
		return s, fmt.Errorf("versions %d and %d of takeover and state, this daemon has %d and %d", q.Version, q.Legacy, takeoverVersion, rds.LegacyVersion)
	case len(t.at.differs(&q.Place)) > 0:
		return s, fmt.Errorf("other settings than this daemon's: %s", strings.Join(t.at.differs(&q.Place), ", "))
	}
	return s, nil
}

// File returns a descriptor of the listening socket.
func (t *takeoverServer) File() (*os.File, error) { return t.l.File() }

// Owns tells whether Close removes the socket file.
func (t *takeoverServer) Owns() bool { return t.file != nil }

// Leave has no further successor asked for. The socket is the successor's.
func (t *takeoverServer) Leave() { _ = t.l.Close() }

// Close removes the socket.
func (t *takeoverServer) Close() error {
	if t.file != nil {
		t.file.Remove()
	}
	return t.l.Close()
}

// heritage is what a takeover needs of rds.Node.
type heritage interface {
	Bequeath(context.Context) (*rds.Legacy, error)
	Return()
}

// listening is a part of the daemon with a listening socket that a successor takes over.
type listening interface {
	File() (*os.File, error)
	Owns() bool // Close removes the socket's file
	Leave()     // has what is under way end, and leaves the socket, and its file, to others
}

// handOver has a successor take the daemon's place, and tells whether it has.
func (d *daemon) handOver(ctx context.Context, s successor) bool {
	defer s.close()
	log := d.log.With(zap.Int("successor", s.pid))
	log.Info("takeover begins")
	began := time.Now()
	n, ok := d.node.(heritage)
	if !ok {
		return false
	}
	if s.locks && !d.lock.shared() {
		log.Error("takeover failed, this daemon goes on", zap.String("error", "the file of its lock was removed: only a restart helps"))
		_ = s.c.Send(&takeoverAnswer{Error: "the file of its lock was removed: only a restart helps"})
		return false
	}
	if s.lingers {
		ctx = bequest.Lingering(ctx)
	}
	l, err := n.Bequeath(ctx)
	if err != nil {
		log.Error("takeover failed, this daemon goes on", zap.Error(err))
		_ = s.c.SetDeadline(time.Now().Add(takeoverStep))
		_ = s.c.Send(&takeoverAnswer{Error: err.Error()})
		return false
	}
	err = d.pass(ctx, s, l)
	l.Close()
	if err != nil {
		n.Return()
		log.Error("takeover failed, this daemon goes on", zap.Error(err))
		return false
	}
	if s.pid != 0 {
		d.tell(fmt.Sprintf("MAINPID=%d", s.pid))
	}
	for _, p := range d.parts {
		p.Leave()
	}
	log.Info("taken over", zap.Duration("after", time.Since(began)))
	return true
}

// pass gives a successor all there is. After an error the successor does not serve, and
// never will.
func (d *daemon) pass(ctx context.Context, s successor, l *rds.Legacy) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answer := takeoverAnswer{PID: os.Getpid(), Legacy: len(l.Files), Lock: d.lock != nil}
	state, err := ipc.NewFile("rdsd-state", l.State)
	if err != nil {
		return err
	}
	defer state.Close()
	files := append([]*os.File{state}, l.Files...)
	for _, p := range d.parts {
		f, e := p.File()
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		files = append(files, f)
		answer.Parts = append(answer.Parts, passedPart{p.name, p.Owns()})
		defer f.Close()
	}
	if err != nil {
		return err
	}
	answer.Files = len(files)
	_ = s.c.SetDeadline(time.Now().Add(takeoverStep))
	if err := s.c.Send(&answer); err != nil {
		return err
	}
	for batch := range slices.Chunk(files, takeoverFDs) {
		if err := s.c.Send(&takeoverStepMessage{}, batch...); err != nil {
			return err
		}
	}
	if !s.locks && l.StateFile >= 0 { // a daemon of a version that keeps no owners; Return undoes it
		if err := statefile.Forego(l.Files[l.StateFile]); err != nil {
			d.log.Warn("state file not given up", zap.Error(err))
		}
	}
	if err := s.hear(stepReady); err != nil {
		s.giveUp(err)
		return err
	}
	if !stop() { // the last chance to go on
		s.giveUp(ctx.Err())
		return ctx.Err()
	}
	_ = s.c.SetDeadline(time.Now().Add(takeoverStep))
	if err := s.c.Send(&takeoverStepMessage{Step: stepGo}); err != nil {
		return err // the successor has ended
	}
	if s.locks {
		d.lock.give()
	}
	err = s.hear(stepServing)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// Nobody knows whether it will go on. It does not without the lock, or if it is dead.
		if s.locks {
			if got, _ := d.lock.take(0); got {
				killProcess(s.process)
				return err
			}
			_ = s.c.SetDeadline(time.Now().Add(takeoverPause)) // it may have said so at this moment
			if s.hear(stepServing) == nil {
				return nil
			}
		}
		killProcess(s.process)
		_ = s.c.SetDeadline(time.Now().Add(takeoverKill))
		err = s.hear(stepServing)
	}
	if err != nil && s.locks {
		if got, _ := d.lock.take(takeoverKill); !got {
			return nil // it has the lock, and so it serves
		}
	}
	return err
}

func (s successor) close() {
	_ = s.c.Close()
	if s.process != nil {
		_ = s.process.Close()
	}
}

// hear waits for a step of the successor.
func (s successor) hear(step string) error {
	var m takeoverStepMessage
	if err := s.c.Receive(&m); err != nil {
		return fmt.Errorf("no %q of the successor: %w", step, err)
	}
	switch {
	case m.Error != "":
		return fmt.Errorf("the successor: %s", m.Error)
	case m.Step != step:
		return fmt.Errorf("%q of the successor instead of %q", m.Step, step)
	}
	return nil
}

// giveUp tells the successor that the daemon goes on.
func (s successor) giveUp(err error) {
	_ = s.c.SetDeadline(time.Now().Add(takeoverStep))
	_ = s.c.Send(&takeoverStepMessage{Error: err.Error()})
}
