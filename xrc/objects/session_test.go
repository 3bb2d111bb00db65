//go:build !live

package objects

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A process lives through a script of calls and is killed after any of them, at
// 200 random points; then the tables are as they were before.
func TestXRCREQ30DeathAtAnyPointLeavesNothing(t *testing.T) {
	t.Parallel()
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, 0))
	g := newRig(t, Config{})
	f := g.file("job")
	other := g.process("other", f)
	shared, link := other.up(peer(1))
	baseline := g.Stats()
	for range 200 {
		p := g.process("victim", f)
		for steps := rnd.IntN(30); steps > 0; steps-- {
			p.live(rnd, shared.ref.Number)
		}
		g.ok(p.Session.Close(ctx))
		g.want(p.Session.Close(ctx), ErrClosed)
		if u := p.Used(); u != (Limits{}) {
			t.Fatalf("seed %d: still used %+v", seed, u)
		}
		now := g.Stats()
		now.Resting, now.EventsLost = baseline.Resting, baseline.EventsLost
		if now != baseline {
			t.Fatalf("seed %d: %+v\nbaseline %+v", seed, now, baseline)
		}
	}
	g.alive(link)
	if i := shared.Info(); i.Registered != 1 || i.Attr.State != StateRTR {
		t.Errorf("%+v", i)
	}
}

// live makes a random call that a process may make.
func (p *process) live(rnd *rand.Rand, shared uint32) {
	g := p.g
	switch rnd.IntN(9) {
	case 0:
		q := p.srq(1 + rnd.IntN(8))
		posted(g, q, 1)
		if rnd.IntN(2) == 0 {
			g.ok(errOf(p.Advertise(ServiceAttr{ID: rnd.Uint64(), Domain: p.dom, SRQ: q})))
		}
	case 1:
		p.up(peer(2 + rnd.Uint32N(100)))
	case 2:
		i := p.initiator()
		g.ok(i.Modify(Attr{State: StateInit}, MaskState|initMask))
	case 3:
		g.ok(errOf(p.Register(p.dom, shared)))
	case 4:
		g.ok(errOf(p.OpenTarget(p.dom, shared)))
	case 5:
		t, _ := p.up(peer(200))
		g.ok(t.Raise(EventQPFatal, ErrPeerGone))
		p.PollEvent() // and never acknowledged
	case 6:
		t, _ := p.up(peer(201))
		g.ok(t.Suspend(g.clk.now()))
	case 7:
		g.ok(errOf(p.OpenDomain(-1, os.O_CREATE)))
	case 8:
		id := rnd.Uint64()
		g.ok(errOf(p.Advertise(ServiceAttr{ID: id, Domain: p.dom})))
		if _, st := g.Connect(ConnectRequest{From: peer(300 + rnd.Uint32N(1000)), Service: id, MTU: 1024}); st != StatusFound {
			g.Errorf("connect: %v", st)
		}
	}
}

// busy is an object that something else must go before.
type busy struct {
	session *Session
	mu      sync.Mutex
	fails   int
	name    string
	log     *[]string
}

func (b *busy) abandonLocked() {}

func (b *busy) String() string { return b.name }

func (b *busy) end(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	*b.log = append(*b.log, b.name)
	if b.fails > 0 {
		b.fails--
		return ErrBusy
	}
	b.session.dev.mu.Lock()
	defer b.session.dev.mu.Unlock()
	delete(b.session.objects, b)
	return nil
}

func TestXRCREQ30NewestFirstAndAgainWhileItHelps(t *testing.T) {
	g := parallelRig(t, Config{})
	s := g.session("s")
	var log []string
	for _, b := range []*busy{{name: "old"}, {name: "busy", fails: 1}, {name: "new"}} {
		b.session, b.log = s, &log
		s.addLocked(b)
	}
	g.ok(s.Close(ctx))
	want := []string{"new", "busy", "old", "busy"}
	if len(log) != len(want) {
		t.Fatalf("%v", log)
	}
	for i := range want {
		if log[i] != want[i] {
			t.Fatalf("%v, want %v", log, want)
		}
	}
	s = g.session("insistent")
	log = nil
	s.addLocked(&busy{session: s, name: "never", fails: 1000, log: &log})
	g.want(s.Close(ctx), ErrBusy)
	if n := g.Stats(); n.Leaks != 1 || len(log) != 1 {
		t.Errorf("%+v, %v", n, log)
	}
	g.Device.leaks = 0
	g.want(errOf(s.AllocPD()), ErrClosed)
}

// Others send and receive through the same target while one process after the
// other dies.
func TestXRCREQ31DeathDisturbsNobody(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	p := g.process("p", f)
	tgt, link := p.up(peer(1))
	q := p.srq(256)
	posted(t, q, 1)
	n := q.Num()
	stop, started := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	messages := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := g.send(tgt, n); err != nil {
				t.Errorf("message %d: %v", messages, err)
				return
			}
			if messages++; messages == 1 {
				close(started)
			}
			runtime.Gosched()
		}
	})
	<-started
	for range 100 {
		victim := g.process("victim", f)
		g.ok(errOf(victim.Register(victim.dom, tgt.ref.Number)))
		dead := victim.srq(4)
		posted(t, dead, 4)
		g.ok(victim.Session.Close(ctx))
	}
	close(stop)
	wg.Wait()
	g.events(p.Session)
	g.alive(link)
	if i := tgt.Info(); i.Attr.State != StateRTR || i.Registered != 1 || messages == 0 {
		t.Errorf("%+v after %d messages", i, messages)
	}
}

func TestXRCREQ32QueuesOfTheDeadAnswerAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where time passes only when somebody waits
		g := newRig(t, Config{})
		f := g.file("job")
		p, victim := g.process("p", f), g.process("victim", f)
		tgt, _ := p.up(peer(1))
		q := victim.srq(4)
		posted(t, q, 4)
		n := q.Num()
		g.ok(g.send(tgt, n))
		g.ok(victim.Session.Close(ctx))
		start := time.Now()
		g.want(g.send(tgt, n), ErrUnknownSRQ)
		same(t, "after", time.Since(start), 0)
	})
}

func TestXRCREQ46LimitsOfASession(t *testing.T) {
	g := parallelRig(t, Config{Sessions: 2})
	f := g.file("job")
	owner := g.process("owner", f)
	var targets []Ref
	for range 4 {
		targets = append(targets, owner.target())
	}
	s, err := g.NewSession(SessionConfig{Name: "small", Limits: Limits{Domains: 2, Initiators: 2, Targets: 2, Registrations: 3,
		SRQs: 2, Receives: 10, CQs: 2, PDs: 2, Services: 2, Events: 2}})
	g.ok(err)
	g.want(errOf(g.NewSession(SessionConfig{})), syscall.EMFILE)
	p := &process{Session: s, g: g}
	p.dom, err = s.OpenDomain(int(f.Fd()), 0)
	g.ok(err)
	p.pd, err = s.AllocPD()
	g.ok(err)
	p.cq, err = s.CreateCQ(cqEntries)
	g.ok(err)
	srq := SRQAttr{Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: 4}
	big := srq
	big.MaxWR = 7
	id := uint64(0)
	for _, c := range []struct {
		name  string
		times int // how often it works, from here on
		call  func() error
	}{
		{"domains", 1, func() error { _, err := s.OpenDomain(-1, os.O_CREATE); return err }},
		{"completion queues", 1, func() error { _, err := s.CreateCQ(cqEntries); return err }},
		{"protection domains", 1, func() error { _, err := s.AllocPD(); return err }},
		{"initiators", 2, func() error {
			_, err := s.CreateInitiator(InitiatorAttr{PD: p.pd, SendCQ: p.cq, MaxSend: 1})
			return err
		}},
		{"queues", 1, func() error { _, err := s.CreateSRQ(srq); return err }},
		{"receives", 0, func() error { _, err := s.CreateSRQ(big); return err }},
		{"queues again", 1, func() error { _, err := s.CreateSRQ(srq); return err }},
		{"targets", 2, func() error { _, err := s.CreateTarget(TargetAttr{Domain: p.dom}); return err }},
		{"registrations", 1, func() error { id++; _, err := s.Register(p.dom, targets[id-1].Number); return err }},
		{"handles", 0, func() error { _, err := s.OpenTarget(p.dom, targets[0].Number); return err }},
		{"services", 2, func() error { id++; _, err := s.Advertise(ServiceAttr{ID: id, Domain: p.dom}); return err }},
	} {
		for i := range c.times {
			if err := c.call(); err != nil {
				t.Errorf("%s %d: %v", c.name, i, err)
			}
		}
		if c.name == "queues" {
			continue // receives are next
		}
		before, stats := s.Used(), g.Stats()
		if err := c.call(); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", c.name, err)
		}
		if s.Used() != before || g.Stats() != stats {
			t.Errorf("%s: something is left: %+v, before %+v", c.name, s.Used(), before)
		}
	}
	// A target that others keep alive counts against its maker as long as it lives.
	r := owner.target()
	used := owner.Used().Targets
	g.want(errOf(s.Register(p.dom, r.Number)), ErrLimit)
	g.ok(owner.Unregister(ctx, owner.dom, r.Number))
	if n := owner.Used().Targets; n != used-1 {
		t.Errorf("%d targets counted, before %d", n, used)
	}
	_, err = g.NewSession(SessionConfig{Limits: Limits{Events: 1}})
	if err == nil || errors.Is(err, ErrSessions) {
		t.Errorf("a queue of one event: %v", err)
	}
}
