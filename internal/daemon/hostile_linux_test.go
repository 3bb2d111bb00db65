//go:build live

package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// evil is an attached application that keeps no rule: it has shaken hands, and
// writes to the shared memory what it likes.
type evil struct {
	testing.TB
	sock *net.UnixConn // the socket of conn
	conn *ipc.Conn
	w    ipc.Welcome
	seg  *ipc.Segment
	raw  []byte // all of it, once more
	bell *os.File
	ear  *os.File
	sq   ipc.Producer
	id   uint64 // id of the last call

	others map[uint64]ipc.Reply // replies that came while another was awaited
}

// Offsets in the first page, as in docs/IPC.md.
const (
	rawSQTail   = 0x100
	rawSQHead   = 0x180
	rawCQTail   = 0x280
	rawCQHead   = 0x300
	rawWantSQ   = 0x400
	rawWantMaps = 0x480
	rawCQ       = 4096 + 32*ringEntries
	rawCells    = 4096 + 2*32*ringEntries
)

// intrude shakes hands by hand.
func intrude(t testing.TB, path string, features ...string) *evil {
	t.Helper()
	e, err := shakeHands(path, features...)
	rdstest.Must(t, err)
	e.TB = t
	return e
}

// shakeHands is intrude without a test.
func shakeHands(path string, features ...string) (*evil, error) {
	c, err := net.DialUnix(ipc.Network, nil, &net.UnixAddr{Name: path, Net: ipc.Network})
	if err != nil {
		return nil, err
	}
	e := &evil{sock: c, conn: ipc.NewConn(c)}
	_ = c.SetDeadline(time.Now().Add(rdstest.Patience))
	if err := e.conn.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version, Features: append(features, ipc.FeatureRDMA)}); err != nil {
		return nil, err
	}
	files, err := e.conn.ReceiveFiles(&e.w, ipc.WelcomeFiles)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%+v, %w", e.w, err)
	}
	if e.seg, err = ipc.OpenSegment(files[0]); err == nil {
		e.raw, err = unix.Mmap(int(files[0].Fd()), 0, e.seg.Size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, err
	}
	ipc.CloseFiles(files[:2])
	e.bell, e.ear, e.sq = files[2], files[3], e.seg.Submit()
	return e, nil
}

// leave gives everything back.
func (e *evil) leave() {
	_ = e.sock.Close()
	ipc.CloseFiles([]*os.File{e.bell, e.ear})
	_ = unix.Munmap(e.raw)
	_ = e.seg.Close()
}

// word and flag are fields of the shared memory.
func (e *evil) word(off int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&e.raw[off])) }
func (e *evil) flag(off int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&e.raw[off])) }

func (e *evil) ring() {
	_ = unix.Send(int(e.bell.Fd()), []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// submit puts entries on the ring as they are, as many as there is room for,
// and rings.
func (e *evil) submit(entries ...ipc.Entry) (n int) {
	for ; n < len(entries); n++ {
		if free, _ := e.sq.Free(1); free == 0 {
			break
		}
		e.sq.Put(entries[n])
	}
	e.sq.Publish()
	e.ring()
	return n
}

// ask makes a call and waits for its answer.
func (e *evil) ask(q ipc.Request) (r ipc.Reply) {
	e.Helper()
	e.id++
	q.ID = e.id
	_ = e.sock.SetDeadline(time.Now().Add(rdstest.Patience)) // what came before may have taken its time
	rdstest.Must(e, e.conn.Send(&q))
	return e.reply(q.ID)
}

// reply waits for the answer to a call, which may have come before another's.
func (e *evil) reply(id uint64) ipc.Reply {
	e.Helper()
	for {
		if r, ok := e.others[id]; ok {
			delete(e.others, id)
			return r
		}
		var r ipc.Reply
		if err := e.conn.Receive(&r); err != nil {
			e.Fatalf("call %d: %v", id, err)
		}
		if e.others == nil {
			e.others = make(map[uint64]ipc.Reply)
		}
		e.others[r.ID] = r
	}
}

// bind and resolve are calls that succeed.
func (e *evil) bind(a netip.AddrPort) (id uint32, port uint16) {
	e.Helper()
	r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: a})
	if r.Error != "" {
		e.Fatal(r.Error)
	}
	return r.Socket, r.Addr.Port()
}

func (e *evil) resolve(local, remote netip.Addr) uint32 {
	e.Helper()
	r := e.ask(ipc.Request{Op: ipc.CallResolve, Local: local, Remote: remote})
	if r.Error != "" {
		e.Fatal(r.Error)
	}
	return r.Peer
}

// thrownOut waits for the daemon to end the session.
func (e *evil) thrownOut() bool {
	_ = e.sock.SetReadDeadline(time.Now().Add(rdstest.Patience))
	b := make([]byte, 4096)
	for {
		n, err := e.sock.Read(b)
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			return false
		}
		if n == 0 || err != nil {
			return true
		}
	}
}

// siege is a daemon with a good application, which exchanges verified messages
// with one at another daemon as long as the test lasts, and writes to its memory.
type siege struct {
	*testing.T
	ops    *opNet
	node   *node.Node
	svc    *Service
	path   string
	logs   *observer.ObservedLogs
	here   netip.Addr     // the daemon's address
	away   netip.Addr     // where another node is
	sink   *socket.Socket // there: it takes what comes
	rounds atomic.Uint64
	failed atomic.Pointer[error]

	fds, goroutines int
}

const (
	siegeSockets = 64
	flushers     = 6 // goroutines that flush connections which stay: they begin when they are first needed
)

func newSiege(t *testing.T) *siege {
	l, ops := newOpLab(t)
	core, logs := observer.New(zap.InfoLevel)
	scfg := config.Service{
		MaxSockets: siegeSockets, MaxSessionsPerUID: 12, SendArena: 1 << 20, ReceiveArena: 1 << 20, MemoryArena: 2 << 20, SendBudget: 4 << 20, Logger: zap.New(core),
	}
	s := &siege{T: t, ops: ops, logs: logs}
	s.node = ops.node(l, config.Node{ReceiveBuffer: 64 << 10, ReconnectMax: 20 * time.Millisecond})
	s.svc, s.path = serving(t, s.node, scfg)
	_, far := serving(t, ops.node(l, config.Node{}), config.Service{})
	a, b := bound(t, dialed(t, s.path), rdstest.AddrOf(rdstest.NewAddr(), 100)), bound(t, dialed(t, far), rdstest.AddrOf(rdstest.NewAddr(), 200))
	s.here, s.away = a.LocalAddrPort().Addr(), b.LocalAddrPort().Addr()
	s.sink = bound(t, ops.node(l, config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 300))
	const written = 9000
	local, region := lent(t, a, written), lent(t, b, written)
	cookie := rdstest.MustGetMR(t, b, region, 0)
	stop := make(chan struct{})
	done := make(chan struct{}, 2)
	run := func(f func(n uint64) error) {
		defer func() { done <- struct{}{} }()
		for n := uint64(0); ; n++ {
			if err := f(n); err != nil {
				select {
				case <-stop:
				default:
					s.failed.CompareAndSwap(nil, &err)
				}
				return
			}
		}
	}
	ctx := t.Context()
	size := func(n uint64) int { return []int{8, 700, 9000, 40000}[n%4] }
	go run(func(n uint64) error { // there and back
		o := datagram.Outgoing{To: b.LocalAddrPort(), Data: rdstest.Payload(n, size(n))}
		if n%4 == 3 {
			copy(local, rdstest.Payload(n, written))
			o.RDMA = &datagram.RDMA{Cookie: cookie, Local: [][]byte{local}, Write: true}
		}
		if err := a.SendMessage(ctx, &o); err != nil {
			return err
		}
		m, err := a.Recv(ctx)
		if err == nil {
			err = rdstest.Verify(m.Data, n)
			m.Release()
		}
		s.rounds.Add(1)
		return err
	})
	go run(func(n uint64) error {
		m, err := b.Recv(ctx)
		if err != nil {
			return err
		}
		if err := rdstest.Verify(m.Data, n); err != nil {
			return err
		}
		if n%4 == 3 {
			if err := rdstest.Verify(region, n); err != nil {
				return fmt.Errorf("the region: %w", err)
			}
		}
		m.Release()
		return b.Send(ctx, m.From, rdstest.Payload(n, size(n+1)))
	})
	go rdstest.Discard(ctx, s.sink)
	t.Cleanup(func() {
		close(stop)
		_, _, _ = a.Close(), b.Close(), s.sink.Close()
		<-done
		<-done
	})
	return s
}

// goes waits until the good application has exchanged n more messages.
func (s *siege) goes(n uint64) {
	s.Helper()
	from := s.rounds.Load()
	rdstest.Eventually(s, "the good application's next messages", func() bool {
		return s.failed.Load() != nil || s.rounds.Load() >= from+n
	})
	if err := s.failed.Load(); err != nil {
		s.Fatalf("the good application: %v", *err)
	}
}

func fds(t testing.TB) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	rdstest.Must(t, err)
	return len(names)
}

// counts is what a former session must not leave behind.
func (s *siege) counts() (sessions, lingering, sockets int) {
	s.svc.mu.Lock()
	sessions, lingering = s.svc.live, len(s.svc.lingering)
	s.svc.mu.Unlock()
	return sessions, lingering, len(s.node.Sockets())
}

// over waits until nothing is left of the attack.
func (s *siege) over() {
	s.Helper()
	s.goes(50)
	var now string
	if !rdstest.Holds(rdstest.Patience/4, func() bool {
		sessions, lingering, sockets := s.counts()
		f, g := fds(s), runtime.NumGoroutine()
		now = fmt.Sprintf("%d sessions, %d lingering and %d other sockets, %d descriptors (%d before), %d goroutines (%d before)",
			sessions, lingering, sockets, f, s.fds, g, s.goroutines)
		return sessions == 1 && lingering == 0 && sockets == 1 && f <= s.fds && g <= s.goroutines
	}) {
		buf := make([]byte, 1<<20)
		s.Fatalf("left over: %s\n%s", now, buf[:runtime.Stack(buf, true)])
	}
}

// Whatever an application does, it ends at most its own session, and nothing of
// it stays. A good application beside it does not notice.
func TestHostileApplications(t *testing.T) { // not in parallel: it counts descriptors and goroutines
	s := newSiege(t)
	warm := intrude(t, s.path) // makes the connections that stay
	id, port := warm.bind(rdstest.AddrOf(s.here, 0))
	for _, to := range []netip.Addr{s.here, s.away, s.sink.LocalAddrPort().Addr()} {
		warm.submit(ipc.MakeEntry(ipc.OpSend, 0, port, id, warm.resolve(s.here, to), 8, 0, 0, 0))
	}
	s.goes(50)
	warm.leave()
	rdstest.Eventually(t, "the end of the first session", func() bool { n, _, k := s.counts(); return n == 1 && k == 1 })
	s.fds, s.goroutines = fds(t), runtime.NumGoroutine()+flushers
	for _, a := range slices.Concat(attacks, operationAttacks, regionAttacks) {
		t.Run(a.name, func(t *testing.T) {
			outer := s.T
			s.T = t
			defer func() { s.T = outer }()
			s.node.LogLimit.End(zap.NewNop()) // The lines of this attack are not limited for those of others.
			forced := s.logs.FilterMessage("application detached by force").Len()
			e := intrude(t, s.path)
			a.run(s, e)
			s.goes(50)
			if a.ends {
				if !e.thrownOut() {
					t.Error("the session goes on")
				}
			} else if r := e.ask(ipc.Request{Op: ipc.CallResolve, Local: s.here, Remote: s.away}); r.Error != "" {
				t.Errorf("the session does not answer: %+v", r)
			}
			e.leave()
			s.over()
			want := 0
			if a.ends {
				want = 1
			}
			if got := s.logs.FilterMessage("application detached by force").Len() - forced; got != want {
				t.Errorf("%d sessions ended by force, want %d", got, want)
			}
		})
	}
}

// knock connects and says nothing.
func knock(t testing.TB, path string) (*net.UnixConn, *ipc.Conn) {
	t.Helper()
	c, err := net.DialUnix(ipc.Network, nil, &net.UnixAddr{Name: path, Net: ipc.Network})
	rdstest.Must(t, err)
	_ = c.SetDeadline(time.Now().Add(rdstest.Patience))
	return c, ipc.NewConn(c)
}

// session is the daemon's side of an intruder.
func (s *siege) session(e *evil) *session {
	s.Helper()
	s.svc.mu.Lock()
	defer s.svc.mu.Unlock()
	return s.svc.sessions[e.w.Session]
}

// drain waits until all that was submitted is settled.
func (e *evil) drain(s *siege) {
	e.Helper()
	x := s.session(e)
	rdstest.Eventually(e, "submissions to be settled", func() bool {
		f, _ := e.sq.Free(ringEntries)
		e.word(rawCQHead).Store(e.word(rawCQTail).Load())
		return f == ringEntries && x.queued.Load() == 0
	})
}

// Return receives a message and returns its block with the wrong counts.
func (e *evil) giveBack(s *siege, counts ...uint64) {
	e.Helper()
	e.submit(e.self(s, ipc.OpSend, 0, 100))
	e.arrived(1)
	cq := e.seg.Completed()
	if n, err := cq.Refresh(); n == 0 || err != nil {
		e.Fatal(n, err)
	}
	m := cq.Peek(0)
	if m.Op() != ipc.OpMessage || m.Block() == ipc.NoBlock {
		e.Fatalf("%+v", m)
	}
	for _, n := range counts {
		e.submit(ipc.MakeEntry(ipc.OpReturn, 0, 0, 0, 0, 0, m.Block(), 0, n))
	}
}

// What an application writes into its cell counts for its own session, never backwards, and
// makes no report that cannot be true.
func TestCountersOfALiar(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, config.Node{}, config.Service{})
	honest := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	e := intrude(t, path)
	defer e.leave()
	r := e.ask(ipc.Request{Op: ipc.CallBind, Addr: rdstest.AddrOf(rdstest.NewAddr(), 200)})
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	cell := e.seg.Cell(int(r.Socket & 0xffff))
	liar := func() info.Session {
		all := svc.Sessions()
		return all[len(all)-1]
	}
	cell.Blocked.Store(7)
	if got := liar().CongestionBlocked; got != 7 {
		t.Fatalf("%d sends have blocked, want 7", got)
	}
	cell.Blocked.Store(3)
	cell.Full.Store(1<<64 - 1)
	cell.TakenMessages.Store(1<<64 - 1)
	cell.TakenBytes.Store(1<<64 - 1)
	for range 2 {
		if x := liar(); x.CongestionBlocked != 7 || x.QueueFull > maxTally || x.RecvMessages != 0 || x.RecvBytes != 0 {
			t.Errorf("%+v", x)
		}
	}
	cell.Blocked.Store(8)
	if got := liar().CongestionBlocked; got != 8 {
		t.Errorf("%d sends have blocked, want 8", got)
	}
	for _, x := range svc.Sessions() {
		if x.PID == os.Getpid() && x.ID != liar().ID && (x.CongestionBlocked != 0 || x.QueueFull != 0) {
			t.Errorf("another session: %+v", x)
		}
	}
	rdstest.MustSend(t, honest, rdstest.Nowhere(), []byte("x"))
	cell.Waits[0].Set(ipc.WaitPort, 9, 0, 77, time.Now().Add(time.Hour).UnixNano()) // the peer of another address
	cell.Waits[1].Set(ipc.WaitPort, 9, 1<<31, 77, 0)
	cell.Waits[2].Set(200, 1, 0, 0, 0)
	if w := rdstest.WaitOf(t, n, info.CauseCongested); w.Senders != 0 {
		t.Errorf("reported although there is no such peer: %+v", w)
	}
	cell.Waits[2].Set(ipc.WaitRoom, 0, 1, 1, 1)
	rdstest.Eventually(t, "a wait that can be", func() bool { return rdstest.WaitOf(t, n, info.CauseSendBuffer).Senders == 1 })
	if w := rdstest.WaitOf(t, n, info.CauseSendBuffer); w.Since.Before(liar().Since) {
		t.Errorf("it waits for longer than it is there: %+v", w)
	}
}
