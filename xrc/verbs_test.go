//go:build live

package xrc

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
)

// host is a node with a daemon, or one without, of which sessions are the test's own.
type host struct {
	addr netip.Addr
	path string // of the daemon; empty: there is none
	node *node.Node
	svc  *daemon.Service // nil: there is none
}

// eachProvider runs a test with objects of attached processes' daemons, and with those of nodes in the process.
func eachProvider(t *testing.T, f func(t *testing.T, near, far *host)) {
	t.Parallel()
	for name, newHost := range map[string]func(testing.TB, *rdstest.Lab) *host{"daemon": newHost, "node": newNodeHost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rdstest.NewLab(t)
			f(t, newHost(t, &l), newHost(t, &l))
		})
	}
}

// newNodeHost starts a node without a daemon.
func newNodeHost(t testing.TB, l *rdstest.Lab) *host {
	t.Helper()
	h := &host{addr: rdstest.NewAddr()}
	h.node = rdstest.Start(l, node.New, config.Node{Wire: config.WireXRC, Addresses: []netip.Addr{h.addr}})
	return h
}

func newHost(t testing.TB, l *rdstest.Lab) *host {
	t.Helper()
	h := &host{addr: rdstest.NewAddr()}
	h.node = rdstest.Start(l, node.New, config.Node{Wire: config.WireXRC, Serves: true, Addresses: []netip.Addr{h.addr}})
	h.svc, h.path = rdstest.Serve(t, daemon.New, h.node, config.Service{})
	return h
}

// serve has another daemon take the place of one that was closed.
func (h *host) serve(t testing.TB) {
	t.Helper()
	svc, err := daemon.New(h.node, config.Service{Path: h.path})
	must(t, err)
	h.svc = svc
	t.Cleanup(func() { _ = svc.Close() })
}

// open begins a session, as a process would if there is a daemon.
func (h *host) open(t testing.TB) *Session {
	t.Helper()
	if h.svc == nil {
		return h.openOwn(t)
	}
	c := rdstest.Attach(t, client.Dial, h.path)
	o, err := c.Objects()
	must(t, err)
	s, err := Open(context.Background(), o)
	must(t, err)
	return s
}

// openOwn begins a session of the node's own process.
func (h *host) openOwn(t testing.TB) *Session {
	t.Helper()
	o, err := daemon.NewOwnObjects(h.node)
	must(t, err)
	s, err := Open(context.Background(), o)
	must(t, err)
	return s
}

// newProcess makes a session with receives receives posted, in the domain of f.
func newProcess(t testing.TB, h *host, f *os.File, receives, completions int) *process {
	t.Helper()
	return equip(t, h.open(t), f, receives, completions)
}

// equip makes a process of a session.
func equip(t testing.TB, s *Session, f *os.File, receives, completions int) *process {
	t.Helper()
	p, err := outfit(s, f, receives, completions, mr.LocalWrite|mr.RemoteWrite|mr.RemoteRead|mr.RemoteAtomic)
	must(t, err)
	for i := range receives {
		p.receive(t, uint64(i))
	}
	return p
}

func (p *process) receive(t testing.TB, id uint64) {
	t.Helper()
	if _, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: id, SGE: []iwarp.SGE{p.mem.SGE(int(id)*slot, slot)}}); err != nil {
		t.Fatal(err)
	}
}

// poll waits for one completion.
func (p *process) poll(t testing.TB) iwarp.Completion {
	t.Helper()
	var list [1]iwarp.Completion
	for p.cq.Poll(list[:]) == 0 {
		must(t, p.cq.Wait(rdstest.Background(t)))
	}
	return list[0]
}

func (p *process) advertise(t testing.TB, id uint64) {
	t.Helper()
	if _, err := p.Advertise(ServiceAttr{ID: id, Domain: p.dom, SRQ: p.srq, Access: mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic | mr.LocalWrite}); err != nil {
		t.Fatal(err)
	}
}

func (p *process) connect(t testing.TB, to netip.Addr, id uint64) *Initiator {
	t.Helper()
	i, err := p.Connect(rdstest.Background(t), InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: to, Service: id, MaxSend: 64, Reads: 16})
	must(t, err)
	return i
}

func domainFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "domain")
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// Messages go from session to session: inline and from memory, to two queues of
// one domain by one initiator, and so do writes, reads and atomics.
func TestWork(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		f := domainFile(t)
		a, b := newProcess(t, far, f, 8, 64), newProcess(t, far, f, 8, 64)
		a.advertise(t, 7)
		b.advertise(t, 8)
		p := newProcess(t, near, domainFile(t), 8, 256)
		i := p.connect(t, far.addr, 7)
		if got := i.Queue(); got.SRQN != a.srq.Num() || got.Tag != a.dom.Tag() {
			t.Errorf("queue %+v, want %d", got, a.srq.Num())
		}
		other, err := i.Join(rdstest.Background(t), 8)
		if err != nil || other.SRQN != b.srq.Num() {
			t.Fatalf("join: %+v, %v", other, err)
		}
		copy(p.mem.Bytes(), "from memory")
		for k, to := range []*process{a, b, a, b} {
			w := iwarp.WorkRequest{ID: uint64(100 + k), Flags: iwarp.Signaled, Queue: to.srq.Num(), Inline: []byte("inline")}
			want := "inline"
			if k >= 2 {
				w.Inline, w.SGE, want = nil, []iwarp.SGE{p.mem.SGE(0, 11)}, "from memory"
			}
			if _, err := i.PostSend(w); err != nil {
				t.Fatal(err)
			}
			c := to.poll(t)
			if got := string(to.mem.Bytes()[c.ID*slot:][:c.Len]); c.Status != iwarp.Success || c.Queue != to.srq.Num() || got != want {
				t.Errorf("%q, %+v", got, c)
			}
			if c := p.poll(t); c.ID != uint64(100+k) || c.Status != iwarp.Success || c.Initiator != i.Number() {
				t.Errorf("sent: %+v", c)
			}
		}
		remote := a.mem.Addr() + 7*slot
		for k, w := range []iwarp.WorkRequest{
			{Op: iwarp.OpWrite, SGE: []iwarp.SGE{p.mem.SGE(0, 8)}},
			{Op: iwarp.OpFetchAdd, SGE: []iwarp.SGE{p.mem.SGE(64, 8)}, Add: 1},
			{Op: iwarp.OpRead, SGE: []iwarp.SGE{p.mem.SGE(128, 8)}},
		} {
			w.ID, w.Flags, w.Queue, w.RemoteKey, w.RemoteAddr = uint64(k), iwarp.Signaled, a.srq.Num(), a.mem.Key(), remote
			if _, err := i.PostSend(w); err != nil {
				t.Fatal(err)
			}
			if c := p.poll(t); c.ID != uint64(k) || c.Status != iwarp.Success {
				t.Fatalf("operation %d: %+v", k, c)
			}
		}
		if _, err := i.PostSend(iwarp.WorkRequest{ID: 9, Op: iwarp.OpWrite, Queue: b.srq.Num(), SGE: []iwarp.SGE{p.mem.SGE(0, 8)}, RemoteKey: a.mem.Key(), RemoteAddr: remote}); err != nil {
			t.Fatal(err)
		}
		if c := p.poll(t); c.ID != 9 || c.Status != iwarp.RemoteAccess {
			t.Errorf("the memory of one process by the queue of another: %+v", c)
		}
		if got := string(p.mem.Bytes()[64:72]); got != "from mem" {
			t.Errorf("the word was %q", got)
		}
		if got := string(p.mem.Bytes()[128:136]); got != "grom mem" {
			t.Errorf("read %q", got)
		}
	})
}

// A process that does not poll has its queue run dry: messages wait for it, none is lost, and when it polls
// again all come.
func TestFullCompletionQueueHoldsReceives(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		a := newProcess(t, far, nil, 64, 8)
		a.advertise(t, 7)
		p := newProcess(t, near, nil, 1, 256)
		i := p.connect(t, far.addr, 7)
		const all = 60
		for k := range all {
			if _, err := i.PostSend(iwarp.WorkRequest{ID: uint64(k), Flags: iwarp.Signaled, Queue: a.srq.Num(), Inline: []byte{byte(k)}}); err != nil {
				t.Fatal(err)
			}
		}
		rdstest.Eventually(t, "the completion queue to be full", func() bool {
			n, err := a.cq.ring.Ready(8)
			return err == nil && n == 8
		})
		for k := range all {
			c := a.poll(t)
			if c.Status != iwarp.Success || a.mem.Bytes()[c.ID*slot] != byte(k) {
				t.Fatalf("message %d: %+v, %d", k, c, a.mem.Bytes()[c.ID*slot])
			}
		}
		for k := range all {
			if c := p.poll(t); c.Status != iwarp.Success || c.ID != uint64(k) {
				t.Fatalf("request %d: %+v", k, c)
			}
		}
	})
}

// What is wrong is refused with the errno that verbs has for it, and a session that ends leaves nothing.
func TestCallsFail(t *testing.T) {
	eachProvider(t, func(t *testing.T, h, far *host) {
		before := h.node.Xrc.Objects().Stats()
		p := newProcess(t, h, nil, 8, 8)
		q := h.open(t)
		f := domainFile(t)
		for _, c := range []struct {
			name string
			err  error
			want error
		}{
			{"no domain", second(q.OpenDomain(f, 0)), syscall.EAGAIN},
			{"a private domain without O_CREATE", second(q.OpenDomain(nil, 0)), syscall.EINVAL},
			{"a domain in use", p.dom.Close(), syscall.EBUSY},
			{"a protection domain in use", p.pd.Close(), syscall.EBUSY},
			{"a completion queue in use", p.cq.Close(context.Background()), syscall.EBUSY},
			{"no target", second(p.Register(p.dom, 0x800001)), syscall.EINVAL},
			{"not registered", p.Unregister(context.Background(), p.dom, 0x800001), syscall.EINVAL},
			{"no service", second(p.Connect(rdstest.Background(t), InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: far.addr, Service: 99, MaxSend: 4})), syscall.ECONNREFUSED},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
			}
		}
		must(t, p.Close())
		must(t, q.Close())
		rdstest.Eventually(t, "nothing to be left", func() bool {
			now := h.node.Xrc.Objects().Stats()
			rds := 0 // queues and sessions of RDS, one for each application
			if h.svc != nil {
				rds = 2
			}
			return now.SRQs == before.SRQs+rds && now.Domains == before.Domains && now.Sessions == before.Sessions+rds && now.Leaks == 0
		})
	})
}

func second[T any](_ T, err error) error { return err }
