package objects

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport/iwarp"
)

// base is the protection domain of all devices of these tests.
var base *iwarp.PD

// gnet starts a worker pool when the program starts, and the event loop of base stays; only what
// comes later is the tests'.
func TestMain(m *testing.M) {
	dev, err := iwarp.Open(iwarp.Config{EventLoops: 1})
	if err == nil {
		base, err = dev.AllocPD()
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

var (
	hostA = netip.MustParseAddr("192.0.2.1")
	hostB = netip.MustParseAddr("2001:db8::2")
	ctx   = context.Background()
)

const incarnationA = 0xA

// clock is a time that only tests move.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1e9, c.passed.Load()) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

// rig is a device with a clock, whose tables must be empty at the end of the
// test.
type rig struct {
	testing.TB
	*Device
	clk clock
}

func newRig(t testing.TB, c Config) *rig {
	t.Helper()
	g := &rig{TB: t}
	c.Now, c.Base = g.clk.now, base
	if c.Seed == 0 {
		c.Seed = 5
	}
	var err error
	if g.Device, err = New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Device.mu.Lock()
		var sessions []*Session
		for s := range g.sessions {
			sessions = append(sessions, s)
		}
		g.Device.mu.Unlock()
		for _, s := range sessions {
			g.ok(s.Close(ctx))
		}
		g.empty()
	})
	return g
}

// parallelRig is the rig of a test that runs beside others.
func parallelRig(t *testing.T, c Config) *rig {
	t.Helper()
	t.Parallel()
	return newRig(t, c)
}

// oneProcess is a parallelRig and a process of it.
func oneProcess(t *testing.T) (*rig, *process) {
	t.Helper()
	g := parallelRig(t, Config{})
	return g, g.process("p", g.file("job"))
}

// twoProcesses is a parallelRig and two processes that have the same domain open.
func twoProcesses(t *testing.T) (g *rig, a, b *process) {
	t.Helper()
	g = parallelRig(t, Config{})
	f := g.file("job")
	return g, g.process("a", f), g.process("b", f)
}

// empty fails unless the tables are as those of a new device.
func (g *rig) empty() {
	g.Helper()
	s := g.Stats()
	if s.Sessions+s.Domains+s.SRQs+s.Initiators+s.Services+s.TotalTargets()+s.Suspended+s.Tombstones+s.PeerGone != 0 || s.Leaks != 0 {
		g.Errorf("objects are left: %+v", s)
	}
	if n := len(g.shares); n != 0 {
		g.Errorf("%d users have something", n)
	}
}

func (g *rig) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *rig) want(err, want error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Errorf("error %v, want %v", err, want)
	}
}

// cqEntries is the size of completion queues.
const cqEntries = 64

// process is a session with what most need.
type process struct {
	*Session
	g   *rig
	dom *Domain
	pd  *PD
	cq  *CQ
}

func (g *rig) session(name string) *Session {
	g.Helper()
	s, err := g.NewSession(SessionConfig{Name: name})
	g.ok(err)
	return s
}

// process makes a session that has the domain of a file open.
func (g *rig) process(name string, file *os.File) *process {
	g.Helper()
	p := &process{Session: g.session(name), g: g}
	var err error
	p.dom, err = p.OpenDomain(int(file.Fd()), os.O_CREATE)
	g.ok(err)
	p.pd, err = p.AllocPD()
	g.ok(err)
	p.cq, err = p.CreateCQ(cqEntries)
	g.ok(err)
	return p
}

// file makes a file for domains to go by.
func (g *rig) file(name string) *os.File {
	g.Helper()
	f, err := os.Create(filepath.Join(g.TempDir(), name))
	g.ok(err)
	g.Cleanup(func() { _ = f.Close() })
	return f
}

func (p *process) srq(n int) *SRQ {
	p.g.Helper()
	q, err := p.CreateSRQ(SRQAttr{Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: n})
	p.g.ok(err)
	return q
}

func (p *process) target() Ref {
	p.g.Helper()
	r, err := p.CreateTarget(TargetAttr{Domain: p.dom})
	p.g.ok(err)
	return r
}

func (p *process) initiator() *Initiator {
	p.g.Helper()
	i, err := p.CreateInitiator(InitiatorAttr{PD: p.pd, SendCQ: p.cq, MaxSend: 16})
	p.g.ok(err)
	return i
}

// peer is an initiator at the other end.
func peer(n uint32) Peer {
	return Peer{Host: hostA, Incarnation: incarnationA, QP: Ref{KindInitiator, firstInitiator + n, 7}}
}

// upAttr brings a target up to StateRTR for a peer.
func upAttr(p Peer) Attr {
	return Attr{Host: p.Host, PathMTU: 4096, DestQPN: p.QP.Number, MaxDestRdAtomic: 4, MinRNRTimer: 12, Access: accessRights}
}

// up makes a target that is connected with a peer.
func (p *process) up(from Peer) (*Target, *conn) {
	p.g.Helper()
	return p.connect(p.target(), from)
}

func (p *process) connect(r Ref, from Peer) (*Target, *conn) {
	p.g.Helper()
	_, err := p.EnsureConnected(p.dom, r.Number, upAttr(from))
	p.g.ok(err)
	t, err := p.g.Target(r)
	p.g.ok(err)
	p.g.ok(t.Rename(from))
	c := &conn{}
	p.g.ok(t.Attach(c))
	return t, c
}

// conn counts what happens to it.
type conn struct {
	mu    sync.Mutex
	n     int
	cause error
}

func (c *conn) Changed() {}

func (c *conn) Close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.cause = cause
}

// ended fails unless the connection was closed once, for this cause.
func (g *rig) ended(c *conn, cause error) {
	g.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n != 1 || c.cause != cause {
		g.Errorf("closed %d times for %v, want once for %v", c.n, c.cause, cause)
	}
}

func (g *rig) alive(c *conn) {
	g.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n != 0 {
		g.Errorf("closed for %v", c.cause)
	}
}

// events takes what waits, and acknowledges it.
func (g *rig) events(s *Session, want ...EventKind) []Event {
	g.Helper()
	var got []Event
	for e, ok := s.PollEvent(); ok; e, ok = s.PollEvent() {
		got = append(got, e)
		g.ok(s.Ack(e))
	}
	if len(got) != len(want) {
		g.Errorf("%s: events %v, want %v", s.name, got, want)
		return got
	}
	for i := range want {
		if got[i].Kind != want[i] {
			g.Errorf("%s: events %v, want %v", s.name, got, want)
			break
		}
	}
	return got
}

// tell raises an event that ends nothing, and may be raised again.
func (g *rig) tell(t *Target) {
	g.Device.mu.Lock()
	defer g.Device.unlock()
	t.eventLocked(EventCommEstablished)
}

// errEmpty is what a message finds that has to wait for a receive.
var errEmpty = errors.New("no receive is posted")

// send asks what the transport asks for a message of a peer: whether there is a queue of that
// number, with a receive for it.
func (g *rig) send(t *Target, srqn uint32) error {
	q, err := g.Resolve(srqn, t)
	if err == nil && q.Posted() == 0 {
		err = errEmpty
	}
	return err
}

func posted(t testing.TB, q *SRQ, n int) {
	t.Helper()
	for i := range n {
		if _, err := q.PostReceive(iwarp.ReceiveRequest{ID: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// same fails the test if what it got is not what it wants.
func same[V comparable](t testing.TB, what string, got, want V) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// errOf is the error of a call whose result does not matter.
func errOf[T any](_ T, err error) error { return err }
