//go:build !live

package objects

import (
	"net/netip"
	"os"
	"sync"
	"testing"
)

const serviceID = 0x5244_0000_0001

// advertised is a process with a queue behind a service.
func (g *rig) advertised(name string, f *os.File, id uint64) (*process, *SRQ, *Service) {
	g.Helper()
	p := g.process(name, f)
	q := p.srq(8)
	v, err := p.Advertise(ServiceAttr{ID: id, Domain: p.dom, SRQ: q, Access: accessRights})
	g.ok(err)
	return p, q, v
}

func request(from Peer, id uint64) ConnectRequest {
	return ConnectRequest{From: from, Service: id, MTU: 4096, RdAtomic: 16}
}

// connected is a peer's request that succeeds.
func (g *rig) connected(r ConnectRequest) (ConnectReply, *Target) {
	g.Helper()
	reply, st := g.Connect(r)
	if st != StatusFound {
		g.Fatalf("connect: %v", st)
	}
	t, err := g.Target(reply.Target)
	g.ok(err)
	return reply, t
}

func TestXRCREQ15ApplicationsOnlyAdvertise(t *testing.T) {
	g := parallelRig(t, Config{RdAtomic: 8, MTU: 2048})
	p, q, _ := g.advertised("app", g.file("job"), serviceID)
	reply, tgt := g.connected(request(peer(1), serviceID))
	if reply.Incarnation != g.Incarnation() || reply.MTU != 2048 || reply.RdAtomic != 8 || reply.Reused ||
		reply.Answer.SRQN != q.Num() || reply.Answer.Tag != p.dom.Tag() {
		t.Errorf("%+v", reply)
	}
	i := tgt.Info()
	if i.Attr.State != StateRTR || i.Peer != peer(1) || i.Attr.MinRNRTimer != connectRNRTimer || i.Registered != 1 {
		t.Errorf("%+v", i)
	}
	g.ok(tgt.Attach(&conn{}))
	posted(t, q, 1)
	g.ok(g.send(tgt, reply.Answer.SRQN))
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone)) // the application is registered: it hears
	g.events(p.Session, EventQPFatal, EventLastWQE)
}

func TestXRCREQ17QueriesLeaveNothingBehind(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	p, q, v := g.advertised("app", f, serviceID)
	for _, a := range []ServiceAttr{
		{ID: 2, Domain: p.dom}, // peers only connect
		{ID: 3, Domain: p.dom, SRQ: q, Hosts: []netip.Prefix{netip.PrefixFrom(hostB, 64)}},
	} {
		g.ok(errOf(p.Advertise(a)))
	}
	_, dead, _ := g.advertised("gone", f, 4)
	g.ok(dead.Close(ctx))
	_, _, busyService := g.advertised("busy", f, 5)
	busyService.SetBusy(true)
	stats, used := g.Stats(), p.Used()
	for n := range 10000 {
		c := []struct {
			id   uint64
			want Status
		}{{serviceID, StatusFound}, {1, StatusNotFound}, {2, StatusWrongService}, {3, StatusRejected}, {4, StatusNotReady}, {5, StatusBusy}}[n%6]
		a, st := g.Lookup(c.id, hostA)
		if st != c.want || st != StatusFound && a != (Answer{}) {
			t.Fatalf("service %d: %v, %+v", c.id, st, a)
		}
		if st == StatusFound && a != (Answer{q.Num(), p.dom.Tag()}) {
			t.Fatalf("%+v", a)
		}
	}
	if g.Stats() != stats || p.Used() != used {
		t.Errorf("%+v, before %+v", g.Stats(), stats)
	}
	if _, st := g.Lookup(3, hostB); st != StatusFound {
		t.Errorf("a host that may: %v", st)
	}
	busyService.SetBusy(false)
	if _, st := g.Lookup(5, hostA); st != StatusFound {
		t.Errorf("no longer busy: %v", st)
	}
	g.ok(v.Withdraw(ctx))
	g.want(v.Withdraw(ctx), ErrForeign)
	if _, st := g.Lookup(serviceID, hostA); st != StatusNotFound {
		t.Errorf("withdrawn: %v", st)
	}
}

func TestAdvertise(t *testing.T) {
	g := parallelRig(t, Config{})
	p, q, _ := g.advertised("p", g.file("job"), serviceID)
	other, _, _ := g.advertised("other", g.file("other"), 2)
	closed := p.srq(1)
	g.ok(closed.Close(ctx))
	for _, c := range []struct {
		name string
		a    ServiceAttr
		want error
	}{
		{"in use", ServiceAttr{ID: 2, Domain: p.dom}, ErrServiceInUse},
		{"no domain", ServiceAttr{ID: 9}, ErrForeign},
		{"queue of another session", ServiceAttr{ID: 9, Domain: other.dom, SRQ: q}, ErrForeign},
		{"queue that is closed", ServiceAttr{ID: 9, Domain: p.dom, SRQ: closed}, ErrForeign},
		{"unknown rights", ServiceAttr{ID: 9, Domain: p.dom, Access: 1 << 7}, ErrAttribute},
	} {
		s := p.Session
		if c.a.Domain == other.dom {
			s = other.Session
		}
		if _, err := s.Advertise(c.a); err != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	private, err := p.OpenDomain(-1, os.O_CREATE)
	g.ok(err)
	g.want(errOf(p.Advertise(ServiceAttr{ID: 9, Domain: private, SRQ: q})), ErrAttribute)
}

func TestXRCREQ18ServicesOfTwoDomainsHaveTwoTargets(t *testing.T) {
	g := parallelRig(t, Config{})
	x, qx, _ := g.advertised("x", g.file("job x"), 1)
	_, qy, _ := g.advertised("y", g.file("job y"), 2)
	rx, tx := g.connected(request(peer(1), 1))
	ry, ty := g.connected(request(peer(1), 2))
	if rx.Target == ry.Target || rx.Answer.Tag == ry.Answer.Tag {
		t.Errorf("%+v, %+v", rx, ry)
	}
	posted(t, qx, 1)
	posted(t, qy, 1)
	g.want(g.send(tx, ry.Answer.SRQN), ErrUnknownSRQ)
	g.want(g.send(ty, rx.Answer.SRQN), ErrUnknownSRQ)
	g.ok(g.send(tx, rx.Answer.SRQN))
	g.ok(g.send(ty, ry.Answer.SRQN))
	// A second application of x's job is behind the same target.
	z := g.process("z", x.dom.xrcd.file)
	g.ok(errOf(z.Advertise(ServiceAttr{ID: 3, Domain: z.dom, SRQ: z.srq(1)})))
	rz, tz := g.connected(request(peer(1), 3))
	if tz != tx || !rz.Reused || tz.Info().Registered != 2 {
		t.Errorf("%+v, %+v", rz, tz.Info())
	}
}

func TestXRCREQ19JoiningATargetThatIsGoneIsNotReady(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a, _, _ := g.advertised("a", f, 1)
	b, _, _ := g.advertised("b", f, 2)
	reply, tgt := g.connected(request(peer(1), 1))
	join := request(peer(1), 2)
	join.Join = reply.Target
	joined, same := g.connected(join)
	if same != tgt || joined.Target != reply.Target || tgt.Info().Registered != 2 {
		t.Errorf("%+v", joined)
	}
	g.ok(a.Session.Close(ctx))
	if tgt.State() != StateRTR {
		t.Error("the target went with one of two")
	}
	g.ok(b.Session.Close(ctx))
	g.advertised("c", f, 2)
	before := g.Stats()
	for _, from := range []Peer{peer(1), peer(2)} {
		join.From = from
		if _, st := g.Connect(join); st != StatusNotReady {
			t.Errorf("joined a dead target: %v", st)
		}
	}
	if g.Stats() != before {
		t.Error("something was made")
	}
	// Another generation under the number is not meant either.
	reply, _ = g.connected(request(peer(1), 2))
	join.From, join.Join = peer(1), reply.Target
	join.Join.Generation--
	if _, st := g.Connect(join); st != StatusNotReady {
		t.Errorf("joined another generation: %v", st)
	}
}

func TestXRCREQ20OneTargetForEachInitiator(t *testing.T) {
	g := parallelRig(t, Config{})
	p, _, _ := g.advertised("app", g.file("job"), serviceID)
	var mu sync.Mutex
	targets := map[Ref]int{}
	var wg sync.WaitGroup
	for n := range 8 {
		for range 8 { // replayed, and at once
			wg.Go(func() {
				reply, st := g.Connect(request(peer(uint32(n)), serviceID))
				if st != StatusFound {
					t.Error(st)
				}
				mu.Lock()
				targets[reply.Target]++
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if len(targets) != 8 || g.Stats().TotalTargets() != 8 || p.Used().Registrations != 8 {
		t.Errorf("%v", targets)
	}
	r := request(peer(1), serviceID)
	first, old := g.connected(r)
	for _, change := range []func(*ConnectRequest){
		func(r *ConnectRequest) { r.MTU = 1024 }, func(r *ConnectRequest) { r.RdAtomic = 1 },
		func(r *ConnectRequest) { r.MTU = 100 }, func(r *ConnectRequest) { r.From.QP.Number = firstTarget },
		func(r *ConnectRequest) { r.From.QP.Generation = 0 }, func(r *ConnectRequest) { r.RdAtomic = -1 }, func(r *ConnectRequest) { r.From.Host = netip.Addr{} },
	} {
		bad := r
		change(&bad)
		if _, st := g.Connect(bad); st != StatusRejected {
			t.Errorf("%+v: %v", bad, st)
		}
	}
	// The initiator was made anew: what it had is over, and so are late frames of it.
	again := r
	again.From.QP.Generation++
	second, _ := g.connected(again)
	if second.Target == first.Target || old.State() != StateError || old.Info().Cause != ErrPeerGone {
		t.Errorf("%+v", old.Info())
	}
	g.events(p.Session, EventQPFatal, EventLastWQE)
	if _, st := g.Connect(r); st != StatusNotReady {
		t.Errorf("an old request: %v", st)
	}
}

func TestXRCREQ21ConnectedMeansReady(t *testing.T) {
	g := parallelRig(t, Config{})
	p, q, _ := g.advertised("app", g.file("job"), serviceID)
	reply, tgt := g.connected(request(peer(1), serviceID))
	g.want(g.send(tgt, reply.Answer.SRQN), errEmpty) // which is no failure of the set-up
	g.ok(q.Close(ctx))
	if _, st := g.Connect(request(peer(2), serviceID)); st != StatusNotReady {
		t.Errorf("no queue: %v", st)
	}
	same(t, "targets", p.Used().Targets, 1)
}

func TestXRCREQ22SetUpUsesNothingOfTheApplication(t *testing.T) {
	g := parallelRig(t, Config{})
	p, q, _ := g.advertised("app", g.file("job"), serviceID)
	posted(t, q, 3)
	before := q.Query()
	for n := range uint32(100) {
		g.connected(request(peer(n), serviceID))
	}
	if q.Query() != before {
		t.Errorf("%+v, before %+v", q.Query(), before)
	}
	g.events(p.Session)
}

func TestXRCREQ23ConnectionsOutliveWhatSetThemUp(t *testing.T) {
	g := parallelRig(t, Config{})
	p, q, v := g.advertised("app", g.file("job"), serviceID)
	reply, tgt := g.connected(request(peer(1), serviceID))
	c := &conn{}
	g.ok(tgt.Attach(c))
	g.ok(errOf(p.Register(p.dom, reply.Target.Number)))
	g.ok(v.Withdraw(ctx))
	g.alive(c)
	posted(t, q, 1)
	g.ok(g.send(tgt, reply.Answer.SRQN))
	g.ok(p.Unregister(ctx, p.dom, reply.Target.Number))
	g.ended(c, ErrDestroyed)
}

func TestXRCREQ41NoTargetInADomainThatIsGoing(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	for range 300 {
		p, _, _ := g.advertised("app", f, serviceID)
		var wg sync.WaitGroup
		for n := range uint32(2) {
			wg.Go(func() {
				_, st := g.Connect(request(peer(n), serviceID))
				switch st {
				case StatusFound, StatusNotReady, StatusNotFound:
				default:
					t.Error(st)
				}
			})
		}
		g.ok(p.Session.Close(ctx))
		wg.Wait()
		if s := g.Stats(); s.TotalTargets() != 0 || s.Domains != 0 {
			t.Fatalf("%+v", s)
		}
	}
	// With more than one in it the others keep it, and each peer has a definite end.
	p, _, _ := g.advertised("app", f, serviceID)
	_, tgt := g.connected(request(peer(1), serviceID))
	c := &conn{}
	g.ok(tgt.Attach(c))
	g.want(p.dom.Close(), ErrBusy)
	p.Session.dev.mu.Lock()
	p.Session.ending = true // as it is while the session is being torn down
	p.Session.dev.unlock()
	if _, st := g.Connect(request(peer(2), serviceID)); st != StatusNotReady {
		t.Errorf("connected to an ending session: %v", st)
	}
	if _, st := g.Lookup(serviceID, hostA); st != StatusNotReady {
		t.Errorf("found an ending session: %v", st)
	}
	p.Session.dev.mu.Lock()
	p.Session.ending = false
	p.Session.dev.unlock()
	g.ok(p.Session.Close(ctx))
	g.ended(c, ErrDestroyed)
}

func TestXRCREQ42ServicesAreReferencesToTheDomain(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a, _, _ := g.advertised("a", f, 1)
	b, qb, vb := g.advertised("b", f, 2)
	_, ta := g.connected(request(peer(1), 1))
	_, tb := g.connected(request(peer(2), 2))
	g.ok(a.Session.Close(ctx))
	if _, st := g.Lookup(1, hostA); st != StatusNotFound {
		t.Errorf("a dead session's service: %v", st)
	}
	if answer, st := g.Lookup(2, hostA); st != StatusFound || answer.Tag != b.dom.Tag() {
		t.Errorf("%+v, %v", answer, st)
	}
	if !ta.dead || tb.State() != StateRTR {
		t.Errorf("targets: %v, %v", ta.State(), tb.State())
	}
	g.ok(qb.Close(ctx))
	g.want(b.dom.Close(), ErrBusy)
	g.ok(vb.Withdraw(ctx)) // with its target
	same(t, "targets", g.Stats().TotalTargets(), 0)
	g.ok(b.dom.Close())
}

func TestConnectStopsAtTheLimits(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Targets: 5, Registrations: 4}})
	f := g.file("job")
	p, _, _ := g.advertised("p", f, 1)
	other, _, _ := g.advertised("other", f, 2)
	for n := range uint32(3) {
		g.connected(request(peer(n), 1))
	}
	if _, st := g.Connect(request(peer(9), 1)); st != StatusBusy {
		t.Errorf("one target too many: %v", st)
	}
	for n := range uint32(3) {
		g.connected(request(peer(n), 2))
	}
	other.target()
	r, _ := g.connected(request(peer(0), 2)) // has it already
	if !r.Reused || g.Stats().TotalTargets() != 4 {
		t.Errorf("%+v", r)
	}
	if u := p.Used(); u.Targets != 3 || u.Registrations != 3 {
		t.Errorf("%+v", u)
	}
}
