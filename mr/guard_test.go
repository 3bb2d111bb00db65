package mr

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

// guarded is a device that paces look-ups as RDS does.
var guarded = Config{PeerLookUps: 64, LookUps: 1024, Linger: -1}

func (g *rig) from(peer netip.Addr, k Key, addr uint64) *Request {
	return &Request{Key: k, Domain: g.dom, From: peer, Rights: RemoteRead, Addr: addr, Len: 1}
}

// guesser is one of many peers.
func guesser(i int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(i))
	return netip.AddrFrom4(a)
}

// tried is how many of n guesses of each of several peers were looked up, all within the
// same moment.
func (g *rig) tried(r *Reader, peers, n int) (looked uint64) {
	before := g.Stats().BadKeys
	for i := range peers {
		for k := range n {
			g.wantFault(r, g.from(guesser(i), Key(k+1), 0), Denied)
		}
	}
	after := g.Stats().BadKeys
	if all := after[Denied] + after[Unseen] - before[Denied] - before[Unseen]; all != uint64(peers*n) {
		g.Fatalf("%d refusals of %d guesses: %v", all, peers*n, after)
	}
	return after[Denied] - before[Denied]
}

// A peer that tries keys is looked up 64 times a second, all peers together 1,024 times,
// and each has a second's worth to begin with.
func TestLookUpsArePaced(t *testing.T) {
	inBubble(t, guarded, func(g *rig) {
		r := g.reader("r")
		for _, c := range []struct {
			after        time.Duration
			peers, tries int
			want         uint64
		}{
			{0, 1, 1000, 64},
			{time.Second / 2, 1, 1000, 32},
			{time.Hour, 1, 1000, 64}, // an hour has saved up no more than a second
			{2 * time.Second, 8, 1000, 8 * 64},
			{2 * time.Second, 64, 100, 1024}, // the limit of the device, not 64 times 64
			{time.Second / 4, 64, 100, 256},
			{2 * time.Second, 5000, 1, 1024},
		} {
			<-time.After(c.after) // the time of the synctest bubble
			if got := g.tried(r, c.peers, c.tries); got != c.want {
				g.Errorf("%d peers: %d look-ups after %v, want %d", c.peers, got, c.after, c.want)
			}
		}
		if n := len(g.guard.peers); n > idlePeers {
			g.Errorf("%d peers are remembered", n)
		}
	})
}

// What a peer was given is looked up whatever else it asks for: by the call that made the
// region, by Give, or because it has used it.
func TestKnownKeysAreAlwaysLookedUp(t *testing.T) {
	inBubble(t, guarded, func(g *rig) {
		r, other := g.reader("r"), g.reader("second path")
		opt := g.options(RemoteRead)
		given, _ := g.region(8, 1, RemoteRead)
		used, _ := g.region(8, 1, RemoteRead)
		foreign, _ := g.region(8, 1, RemoteRead)
		opt.Peer = peerA
		bound := g.mapped(g.own, make([]byte, 8), opt)
		opt.Peer = peerB
		elsewhere := g.mapped(g.own, make([]byte, 8), opt)
		g.Give(given, g.Peer(peerA))
		g.Give(foreign, g.Peer(peerB))
		g.wantFault(r, g.from(peerA, used, 0), None) // costs a token
		if n := g.tried(r, 0, 0); n != 0 {
			g.Fatal(n)
		}
		for range 1000 {
			g.wantFault(r, g.from(peerA, 12345, 0), Denied)
		}
		for range 3 {
			for name, k := range map[string]Key{"given": given, "used": used, "bound": bound} {
				for _, r := range []*Reader{r, other} {
					same(g, name, fault(r, g.from(peerA, k, 0)), None)
				}
			}
			g.wantFault(r, g.from(peerA, foreign, 0), Denied)
			g.wantFault(r, g.from(peerA, elsewhere, 0), Denied)
		}
		<-time.After(time.Second) // the time of the synctest bubble: there are tokens again
		g.wantFault(r, g.from(peerA, foreign, 0), None)
		g.wantFault(r, g.from(peerA, elsewhere, 0), Denied)
	})
}

// What a peer knew of a region is forgotten with it: the next key of the same base is a
// new secret, for each reader, and the guard is not passed by keys that are dead.
func TestKnowledgeEndsWithTheRegion(t *testing.T) {
	c := guarded
	c.Small.Items = 1
	inBubble(t, c, func(g *rig) {
		r := g.reader("r")
		opt := g.options(RemoteRead)
		k := g.mapped(g.own, make([]byte, 8), opt)
		index := g.index(k)
		for i := range 100 {
			g.Give(k, g.Peer(guesser(i)))
		}
		g.Give(k, g.Peer(peerA))
		g.wantFault(r, g.from(peerA, k, 0), None)
		for range 64 {
			g.wantFault(r, g.from(peerA, 1, 0), Denied)
		}
		g.ok(g.own.FreeInvalidate(g.Context(), k))
		k = g.mapped(g.own, make([]byte, 8), opt)
		if g.index(k) != index {
			g.Fatal("another base")
		}
		g.wantFault(r, g.from(peerA, k, 0), Denied)
		g.ok(g.own.Barrier(g.Context()))
		if s := g.Stats(); s.BadKeys[Unseen] != 1 || s.Acquaintances != 0 || g.own.acquaintances.Load() != 0 {
			g.Errorf("%d refused unseen, %d acquaintances of no region", s.BadKeys[Unseen], s.Acquaintances)
		}
	})
}

// TestGuessesLookTheSame: whatever is wrong with a key that a peer was not given, it and
// the counters say the same.
func TestGuessesLookTheSame(t *testing.T) {
	inBubble(t, guarded, func(g *rig) {
		r := g.reader("r")
		opt := g.options(RemoteRead)
		opt.Base = 1 << 20
		live := g.mapped(g.own, make([]byte, 4096), opt)
		dead := g.mapped(g.own, make([]byte, 4096), opt)
		g.ok(g.own.Free(dead))
		opt.Peer = peerB
		bound := g.mapped(g.own, make([]byte, 4096), opt)
		with := func(k Key, change func(*Request)) *Request {
			req := g.from(peerA, k, 1<<20)
			if change != nil {
				change(req)
			}
			return req
		}
		n := uint64(0)
		for name, req := range map[string]*Request{
			"unknown":       with(live^1<<30, nil),
			"dead":          with(dead, nil),
			"other version": with(g.table.cipher.key(g.index(live), g.version(live)+1), nil),
			"out of bounds": with(live, func(r *Request) { r.Addr += 4096 }),
			"page before":   with(live, func(r *Request) { r.Addr -= 4096 }),
			"wraps":         with(live, func(r *Request) { r.Addr = ^uint64(0); r.Len = 2 }),
			"no right":      with(live, func(r *Request) { r.Rights = RemoteWrite }),
			"other domain":  with(live, func(r *Request) { r.Domain = nil }),
			"misaligned":    with(live, func(r *Request) { r.Rights = RemoteAtomic; r.Addr++; r.Len = 8 }),
			"other peer's":  with(bound, nil),
		} {
			same(g, name, fault(r, req), Denied)
			if n++; g.Stats().BadKeys != [faults]uint64{Denied: n} {
				g.Errorf("%s is told apart: %v", name, g.Stats().BadKeys)
			}
		}
		for range 64 {
			fault(r, g.from(peerA, 1, 0))
		}
		if f := fault(r, with(live, nil)); f != Denied { // good, and refused unseen
			g.Errorf("a good key without a token: %v", f)
		}
		<-time.After(time.Second) // the time of the synctest bubble
		g.wantFault(r, with(live, nil), None)
	})
}

// A peer cannot end regions whose keys it guesses, however many it tries.
func TestRevokeNeedsTheKeyToBeKnown(t *testing.T) {
	inBubble(t, guarded, func(g *rig) {
		r := g.reader("r")
		k, _ := g.region(8, 0, RemoteRead)
		same(g, "a key that nobody was given", r.Revoke(k, g.dom, peerA), Denied)
		g.Give(k, g.Peer(peerB))
		same(g, "a key of another peer", r.Revoke(k, g.dom, peerA), Denied)
		if f := r.Revoke(k, g.dom, peerB); f != None {
			g.Error(f)
		}
	})
}

// A thousand regions of a thousand peers each are remembered exactly.
func TestManyPeersHaveManyKeys(t *testing.T) {
	t.Parallel()
	const regions, peers = 1000, 1000
	g := newRig(t, guarded)
	r := g.reader("r")
	ids := make([]Peer, peers)
	for i := range ids {
		ids[i] = g.Peer(guesser(i))
	}
	keys := make([]Key, regions)
	for i := range keys {
		keys[i], _ = g.region(8, 0, RemoteRead)
		for _, id := range ids {
			g.Give(keys[i], id)
		}
	}
	s := g.Stats()
	if s.Forgotten != 0 || s.Acquaintances > 2*regions*peers*4/3 {
		t.Errorf("%d entries for %d pairs, %d forgotten", s.Acquaintances, regions*peers, s.Forgotten)
	}
	for i := range peers {
		for j := range regions {
			g.wantFault(r, g.from(guesser(i), keys[(i+j)%regions], 0), None)
			if j > 16 {
				break
			}
		}
	}
	if s := g.Stats().BadKeys; s[Unseen]+s[Denied] != 0 {
		t.Errorf("%d look-ups cost a token, %d were refused", s[Denied], s[Unseen])
	}
	for _, k := range keys {
		g.ok(g.own.Free(k))
	}
	g.ok(g.own.Barrier(t.Context()))
	same(t, "acquaintances of no region", g.Stats().Acquaintances, 0)
}

// An owner that fills the tables leaves as much to the others, and whoever comes last is
// known: one more pays for its next look-up.
func TestAcquaintancesAreBounded(t *testing.T) {
	c := guarded
	c.Acquaintances = 256
	inBubble(t, c, func(g *rig) {
		r := g.reader("r")
		hog, _ := g.region(8, 0, RemoteRead)
		for i := range 1000 {
			g.Give(hog, g.Peer(guesser(i)))
			if !g.table.live(g.index(hog)).known.has(g.Peer(guesser(i))) {
				t.Fatalf("peer %d is not known", i)
			}
		}
		s := g.Stats()
		if s.Acquaintances > 128 || s.Forgotten == 0 {
			g.Errorf("%d entries of 256, %d forgotten", s.Acquaintances, s.Forgotten)
		}
		second := g.NewOwner(OwnerConfig{})
		k := g.mapped(second, make([]byte, 8), g.options(RemoteRead))
		for i := range 12 {
			g.Give(k, g.Peer(guesser(i)))
		}
		for i := range 12 {
			g.wantFault(r, g.from(guesser(i), k, 0), None)
		}
		if f := g.Stats().Forgotten; f != s.Forgotten {
			g.Errorf("%d of another owner's were forgotten", f-s.Forgotten)
		}
	})
}
