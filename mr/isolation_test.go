package mr

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestMRREQ25ConnectionsComeAndGoKeysStay: a connection is a reader here.
func TestMRREQ25ConnectionsComeAndGoKeysStay(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(64, 3, RemoteRead)
	for range 100 {
		r := g.NewReader("connection", nil)
		g.wantFault(r, g.read(k, 64), None)
		r.Close()
	}
	if s := g.Stats(); s.Small.Live != 1 || s.Invalidations != 0 {
		t.Errorf("%+v", s)
	}
}

// badRequests are requests for region k of 64 bytes that must fail, each for
// the first of its reasons in the order of the constants.
func badRequests(g *rig, k Key) map[string]struct {
	req  Request
	want Fault
} {
	all := Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteRead, Addr: 1 << 32, Len: 1}
	with := func(f func(*Request)) Request { r := all; f(&r); return r }
	return map[string]struct {
		req  Request
		want Fault
	}{
		"index of another part of the table": {with(func(r *Request) { r.Key = k ^ 1<<31 }), NoRegion},
		"index never used":                   {with(func(r *Request) { r.Key = k + 1<<8 }), NoRegion},
		"key 0":                              {with(func(r *Request) { r.Key = 0 }), NoRegion},
		"version before":                     {with(func(r *Request) { r.Key = g.table.cipher.key(g.index(k), g.version(k)-1) }), StaleKey},
		"version after":                      {with(func(r *Request) { r.Key = g.table.cipher.key(g.index(k), g.version(k)+1); r.Domain = nil }), StaleKey},
		"other domain":                       {with(func(r *Request) { r.Domain = g.NewDomain(); r.From = peerB }), WrongDomain},
		"no domain":                          {with(func(r *Request) { r.Domain = nil }), WrongDomain},
		"other peer":                         {with(func(r *Request) { r.From = peerB; r.Rights = RemoteWrite }), WrongPeer},
		"write":                              {with(func(r *Request) { r.Rights = RemoteWrite; r.Addr = 0 }), NoRight},
		"one of two rights":                  {with(func(r *Request) { r.Rights |= LocalWrite }), NoRight},
		"wraps":                              {with(func(r *Request) { r.Len = ^uint64(0) }), Wrap},
		"wraps by one":                       {with(func(r *Request) { r.Addr = ^uint64(0); r.Len = 2 }), Wrap},
		"before":                             {with(func(r *Request) { r.Addr-- }), OutOfBounds},
		"one byte past the end":              {with(func(r *Request) { r.Len = 65 }), OutOfBounds},
		"behind":                             {with(func(r *Request) { r.Addr += 64 }), OutOfBounds},
		"last address":                       {with(func(r *Request) { r.Addr = ^uint64(0) }), OutOfBounds},
		"longer than any":                    {with(func(r *Request) { r.Len = 1 << 63 }), OutOfBounds},
	}
}

func TestCheckGivesTheFirstReason(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	opt := Options{Domain: g.dom, Rights: RemoteRead, Base: 1 << 32, Peer: peerA}
	k := g.mapped(g.own, make([]byte, 64), opt)
	bad := badRequests(g, k)
	for name, c := range bad {
		same(t, name, fault(r, &c.req), c.want)
	}
	for name, c := range bad { // no length, no reason
		c.req.Len = 0
		if f := fault(r, &c.req); f != None {
			t.Errorf("%s, of no length: %v", name, f)
		}
	}
	for _, good := range []Request{
		{Addr: 1 << 32, Len: 64, From: peerA, Rights: RemoteRead},
		{Addr: 1<<32 + 63, Len: 1, From: netip.AddrFrom16(peerA.As16()), Rights: RemoteRead},
		{Addr: 1 << 32, Len: 64}, // local use is not bound to the peer
	} {
		good.Key, good.Domain = k, g.dom
		g.wantFault(r, &good, None)
	}
	g.ok(g.own.Free(k))
	g.wantFault(r, g.read(k, 1), Revoked)
	g.want(errOf(g.own.Map(make([]byte, 16), Options{Domain: g.dom, Base: 1<<64 - 15})), ErrBase)
	// The last byte of the address space belongs to a region as any other.
	top := g.mapped(g.own, make([]byte, 16), Options{Domain: g.dom, Base: 1<<64 - 16})
	g.wantFault(r, &Request{Key: top, Domain: g.dom, Addr: 1<<64 - 16, Len: 16}, None)
	g.wantFault(r, &Request{Key: top, Domain: g.dom, Addr: 1<<64 - 16, Len: 17}, Wrap)
}

// TestMRREQ26BadKeysHurtNobodyElse: one rogue peer sends bad keys as fast as
// it can, on a connection it shares with others.
func TestMRREQ26BadKeysHurtNobodyElse(t *testing.T) {
	g := parallelRig(t, Config{})
	opt := Options{Domain: g.dom, Rights: RemoteRead, Base: 1 << 32, Peer: peerA}
	k := g.mapped(g.own, bytes.Repeat([]byte{1}, 64), opt)
	bad := badRequests(g, k)
	good := Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteRead, Addr: 1 << 32, Len: 64}
	var wg sync.WaitGroup
	const rounds = 500
	for range 2 {
		r := g.reader("shared connection")
		wg.Go(func() {
			for range rounds {
				for name, c := range bad {
					g.wantFault(r, &c.req, c.want)
					if f := fault(r, &good); f != None {
						t.Errorf("after %q the others got %v", name, f)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	s := g.Stats()
	var counted uint64
	for f, n := range s.BadKeys {
		if Fault(f) == None && n > 0 {
			t.Errorf("%d good requests were counted", n)
		}
		counted += n
	}
	if want := uint64(2 * rounds * len(bad)); counted != want {
		t.Errorf("%d bad keys counted, want %d", counted, want)
	}
	if s.Small.Live != 1 || s.Batches != 0 {
		t.Errorf("bad keys changed the table: %+v", s)
	}
}

// TestMRREQ27RegionsSurviveTheFaultOfAConnection: what a raw QP does after a
// fault is its own affair; the key works on the next one.
func TestMRREQ27RegionsSurviveTheFaultOfAConnection(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(64, 0, RemoteRead)
	r := g.NewReader("QP that fails", nil)
	g.wantFault(r, &Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteWrite, Len: 1}, NoRight)
	r.Close()
	g.wantFault(g.reader("another QP"), g.read(k, 64), None)
	same(t, "faults counted after the reader closed", g.Stats().BadKeys[NoRight], 1)
}

func TestMRREQ28BadKeysAreAttributedAndLoggedOnceAnInterval(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	c := Config{LogInterval: time.Minute, Peers: 3, Logger: zap.New(core)}
	inBubble(t, c, func(g *rig) {
		r := g.reader("r")
		send := func(from netip.Addr, n int) {
			for range n {
				g.wantFault(r, &Request{Key: 5, Domain: g.dom, From: from, Len: 1}, NoRegion)
			}
		}
		send(peerA, 600)
		send(peerB, 10)
		same(g, "lines before there is anything to sum up", logs.Len(), 0)
		<-time.After(time.Second / 2)
		send(peerA, 400)
		<-time.After(time.Second)
		about := func(peer netip.Addr) []observer.LoggedEntry {
			return logs.FilterField(zap.ByteString("peer", []byte(peer.String()))).AllUntimed()
		}
		lines := about(peerA)
		if len(lines) != 1 || lines[0].ContextMap()["refused"] != uint64(1000) || len(about(peerB)) != 1 {
			g.Errorf("lines of the first second: %v %v", lines, about(peerB))
		}
		for range 30 {
			send(peerA, 1)
			<-time.After(time.Second)
		}
		if lines = about(peerA); len(lines) != 1 {
			g.Errorf("%d lines within an interval", len(lines))
		}
		<-time.After(time.Minute)
		if lines = about(peerA); len(lines) != 2 || lines[1].ContextMap()["refused"] != uint64(30) {
			g.Errorf("lines about %v: %v", peerA, lines)
		}
		<-time.After(time.Minute)
		r.Enter() // several in one section are one note
		for range 5 {
			r.Check(&Request{Key: 5, Domain: g.dom, From: peerA, Len: 1})
		}
		r.Leave()
		// Ever new peers take neither more room nor more of the log.
		for a, i := netip.MustParseAddr("10.0.0.1"), 0; i < 100; a, i = a.Next(), i+1 {
			send(a, 2)
		}
		s := g.Stats()
		<-time.After(2 * time.Minute)
		if len(s.Offenders) > 4 || logs.Len() > 3+4 {
			g.Errorf("%d peers kept, %d lines", len(s.Offenders), logs.Len())
		}
		var sum uint64
		for _, n := range s.Offenders {
			sum += n
		}
		if sum != 1245 || s.Offenders[peerA] != 1035 || s.BadKeys[NoRegion] != 1245 {
			g.Errorf("offenders %v of %d bad keys", s.Offenders, s.BadKeys[NoRegion])
		}
		if n, held := s.Offenders[peerB]; held {
			g.Errorf("a quiet peer kept its place with %d", n)
		}
	})
}

// TestMRREQ29DeathOfAnOwnerDuringAWriteStorm kills the owner of regions that
// peers write to; its memory is then scribbled over by its next user.
func TestMRREQ29DeathOfAnOwnerDuringAWriteStorm(t *testing.T) {
	g := parallelRig(t, Config{})
	victim := g.NewOwner(OwnerConfig{Name: "victim"})
	var keys []Key
	var mems [][]byte
	for i := range 30 {
		mem := make([]byte, []int{512, SmallSize + 512, 512}[i%3])
		opt := g.options(readWrite)
		var k Key
		if i%3 == 2 {
			k, _ = victim.Register(mem, opt)
		} else {
			k = g.mapped(victim, mem, opt)
		}
		keys, mems = append(keys, k), append(mems, mem)
	}
	survivor, _ := g.region(64, 0, RemoteRead)
	var wg, ready sync.WaitGroup
	var over atomic.Bool
	for i := range 3 {
		r := g.reader("r")
		ready.Add(1)
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				req := &Request{Key: keys[n%len(keys)], Domain: g.dom, From: peerA, Rights: RemoteWrite, Addr: uint64(i) * 8, Len: 8}
				r.Enter()
				if b, f := r.Check(req); f == None {
					binary.NativeEndian.PutUint64(b, uint64(n))
				}
				r.Leave()
				g.wantFault(r, g.read(survivor, 8), None)
				if n == 100 {
					ready.Done()
				}
			}
		})
	}
	ready.Wait()
	g.ok(victim.Close(context.Background()))
	for _, mem := range mems {
		for i := range mem {
			mem[i] = 0xee
		}
	}
	for range 100 {
		g.ok(g.own.Barrier(t.Context()))
	}
	over.Store(true)
	wg.Wait()
	r := g.reader("late")
	for i, k := range keys {
		g.wantFault(r, g.read(k, 1), Revoked)
		if bytes.Count(mems[i], []byte{0xee}) != len(mems[i]) {
			t.Errorf("region %d was written to after its owner's death", i)
		}
	}
	g.want(errOf(victim.Map(mems[0], g.options(0))), ErrClosed)
	g.want(victim.Free(keys[0]), ErrKey)
	g.ok(victim.Close(context.Background()))
}

func TestMRREQ30OtherProcessesCannotFreeOrUseARegion(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	k, _ := g.region(64, 0, LocalWrite)
	thief, thiefDomain := g.NewOwner(OwnerConfig{}), g.NewDomain()
	for name, err := range map[string]error{
		"free":            thief.Free(k),
		"free+invalidate": thief.FreeInvalidate(t.Context(), k),
		"guessed version": g.own.Free(k + 1),
		"guessed index":   g.own.Free(k + 1<<8),
		"key 0":           g.own.Free(0),
	} {
		g.want(err, ErrKey)
		g.want(err, syscall.EINVAL)
		if err == nil {
			t.Error(name)
		}
	}
	g.want(errOf(thief.Map(make([]byte, 8), Options{Domain: newRig(t, Config{}).dom})), ErrDomain)
	g.wantFault(r, &Request{Key: k, Domain: thiefDomain, Len: 1}, WrongDomain)
	g.wantFault(r, &Request{Key: k, Domain: g.dom, Rights: LocalWrite, Len: 64}, None)
	g.ok(g.own.Free(k))
	g.want(g.own.Free(k), ErrKey)
}

// A request reaches the regions of its domain and of those inside: not of others, not of the
// domain around it, and nothing without a domain.
func TestRequestsReachTheirDomainAndThoseInside(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	outer := g.NewDomain()
	middle := outer.NewDomain()
	inner, sibling := middle.NewDomain(), middle.NewDomain()
	all := []*Domain{outer, middle, inner, sibling, g.dom, nil}
	for of, from := range map[*Domain][]*Domain{outer: {outer}, middle: {outer, middle}, inner: {outer, middle, inner}, sibling: {outer, middle, sibling}, g.dom: {g.dom}} {
		revoked := false
		for _, d := range all {
			k := g.mapped(g.own, make([]byte, 8), Options{Domain: of, Rights: RemoteRead})
			want := WrongDomain
			if slices.Contains(from, d) {
				want, revoked = None, true
			}
			g.wantFault(r, &Request{Key: k, Domain: d, Len: 8}, want)
			same(t, "revoke", r.Revoke(k, d, netip.Addr{}), want)
			if want != None {
				g.ok(g.own.Free(k))
			}
		}
		if !revoked {
			t.Error("reached from nowhere")
		}
	}
	g.ok(g.own.Barrier(t.Context()))
	for _, d := range []*Domain{inner, sibling, middle, outer} {
		g.ok(d.Close())
	}
}
