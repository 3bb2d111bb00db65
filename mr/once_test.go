package mr

import (
	"sync"
	"sync/atomic"
	"testing"
)

// once maps a use-once region and a request of an operation of its own for it.
func (g *rig) once() (Key, *Request) {
	opt := g.options(readWrite)
	opt.Once = true
	k := g.mapped(g.own, make([]byte, 64), opt)
	req := g.read(k, 32)
	req.Use = new(Use)
	return k, req
}

// another is the request of another operation.
func (r *Request) another() *Request {
	a := *r
	a.Use = new(Use)
	return &a
}

func TestMRREQ31FirstSuccessRetiresAUseOnceKey(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	k, req := g.once()
	req.Len = 65
	g.wantFault(r, req, OutOfBounds)
	g.Finish(req.Use, true) // has no region
	req.Len = 32
	g.wantFault(r, req, None)
	req.Addr = 32
	g.wantFault(r, req, None) // the next chunk of the same operation
	second := req.another()
	g.wantFault(r, second, Spent)
	g.Finish(second.Use, true) // was refused
	g.wantFault(r, req, None)
	g.Finish(req.Use, true)
	g.wantFault(r, second, Revoked)
	g.wantFault(r, req, Revoked)
	if req.Use.Holds() || second.Use.Holds() {
		t.Error("an operation holds a dead region")
	}
	g.want(g.own.Free(k), ErrKey)
	g.ok(g.own.Barrier(t.Context()))
	same(t, "bytes pinned by a used region", g.own.Pinned(), 0)
}

func TestMRREQ31FailedOperationGivesTheRegionBack(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	_, req := g.once()
	second := req.another()
	g.wantFault(r, req, None)
	g.Finish(req.Use, false)
	g.wantFault(r, second, None)
	g.wantFault(r, req, Spent)
	g.Finish(req.Use, true)
	g.wantFault(r, second, None)
	g.Finish(second.Use, true)
	g.wantFault(r, req, Revoked)
}

// A Use goes on with the next operation, whatever has become of the region before.
func TestUseServesOneOperationAfterAnother(t *testing.T) {
	g := parallelRig(t, Config{Small: PoolConfig{Items: 1}})
	r := g.reader("r")
	use := new(Use)
	for i := range 20 {
		k, req := g.once()
		req.Use = use
		g.wantFault(r, req, None)
		if i%2 == 0 { // the owner frees it in the midst, and the base gets its next region
			g.ok(g.own.FreeInvalidate(t.Context(), k))
			next, other := g.once()
			g.wantFault(r, other, None)
			g.Finish(use, true)
			g.wantFault(r, other, None)
			g.Finish(other.Use, false)
			g.ok(g.own.FreeInvalidate(t.Context(), next))
			continue
		}
		g.Finish(use, true)
		g.wantFault(r, req, Revoked)
		g.ok(g.own.Barrier(t.Context()))
	}
}

func TestUseOnceNeedsAUseFromPeersOnly(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	k, req := g.once()
	req.Use = nil
	g.wantFault(r, req, Spent)
	g.wantFault(r, &Request{Key: k, Domain: g.dom, Rights: LocalWrite, Len: 64}, None)
	plain, _ := g.region(8, 0, RemoteRead)
	req = g.read(plain, 8)
	req.Use = new(Use)
	g.wantFault(r, req, None)
	if req.Use.Holds() {
		t.Error("an operation holds a region for many")
	}
	g.Finish(req.Use, true)
	g.wantFault(r, req, None)
}

func TestMRREQ32OneOfTwoConcurrentFirstUsesWins(t *testing.T) {
	g := parallelRig(t, Config{})
	const peers = 4
	var readers [peers]*Reader
	for i := range readers {
		readers[i] = g.reader("r")
	}
	for range 500 {
		_, req := g.once()
		var passed atomic.Int32
		var wg sync.WaitGroup
		for _, r := range readers {
			req := req.another()
			wg.Go(func() {
				switch f := fault(r, req); f {
				case None:
					passed.Add(1)
					g.Finish(req.Use, true)
				case Spent, Revoked:
				default:
					t.Error(f)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 1 {
			t.Fatalf("%d operations passed", passed.Load())
		}
	}
}

// TestMRREQ33UsedKeyIsDeadBeforeTheMessageIsReadable: the message that follows an operation
// finds the key dead. An operation that is under way is ended by it, one of another peer is
// not.
func TestMRREQ33UsedKeyIsDeadBeforeTheMessageIsReadable(t *testing.T) {
	inBubble(t, Config{Linger: -1}, func(g *rig) {
		r := g.reader("r")
		k, req := g.once()
		if g.Retire(k, peerA) || g.Retire(0, peerA) {
			g.Error("a region was ended that nobody uses")
		}
		r.Enter()
		if _, f := r.Check(req); f != None {
			g.Fatal(f)
		}
		if g.Retire(k, peerB) {
			g.Error("a region was ended that another peer uses")
		}
		ended := later(func() error {
			if !g.Retire(k, peerA) {
				g.Error("an operation goes on behind its message")
			}
			return nil
		})
		g.blocked(ended, "Retire with the operation's section open")
		r.Leave()
		g.ok(<-ended)
		g.wantFault(r, req, Revoked)
		g.Finish(req.Use, true)
		if g.Retire(k, peerA) {
			g.Error("a region was ended twice")
		}
		// Send with Invalidate is the other way to deliver and invalidate at once.
		k2, _ := g.region(8, 0, RemoteRead)
		if f := r.Revoke(k2, g.dom, peerA); f != None {
			g.Fatal(f)
		}
		g.wantFault(r, g.read(k2, 1), Revoked)
	})
}

func TestRevokeChecksWhoAsks(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	opt := g.options(RemoteRead)
	opt.Peer = peerA
	k := g.mapped(g.own, make([]byte, 8), opt)
	local, _ := g.region(8, 0, LocalWrite)
	for _, c := range []struct {
		k    Key
		dom  *Domain
		want Fault
	}{
		{0, g.dom, NoRegion},
		{g.table.cipher.key(g.index(k), g.version(k)+1), g.dom, StaleKey},
		{k, g.NewDomain(), WrongDomain},
		{local, g.dom, NoRight},
	} {
		if f := r.Revoke(c.k, c.dom, peerA); f != c.want {
			t.Errorf("Revoke %v: %v, want %v", c.k, f, c.want)
		}
	}
	same(t, "Revoke by another peer", r.Revoke(k, g.dom, peerB), WrongPeer)
	g.wantFault(r, g.read(k, 8), None)
	if f := r.Revoke(k, g.dom, peerA); f != None {
		t.Error(f)
	}
	same(t, "Revoke twice", r.Revoke(k, g.dom, peerA), Revoked)
	g.want(g.own.Free(k), ErrKey)
	if s := g.Stats(); s.Offenders[peerA] != 5 || s.Offenders[peerB] != 1 {
		t.Errorf("%v", s.Offenders)
	}
}
