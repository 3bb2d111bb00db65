package mr

import (
	"sync"
	"sync/atomic"
	"testing"
)

// once maps a use-once region and a request of operation claim for it.
func (g *rig) once(claim uint64) (Key, *Request) {
	opt := g.options(readWrite)
	opt.Once = true
	k := g.mapped(g.own, make([]byte, 64), opt)
	req := g.read(k, 32)
	req.Claim = claim
	return k, req
}

func TestMRREQ31FirstSuccessRetiresAUseOnceKey(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	r := g.reader("r")
	k, req := g.once(1)
	bad := *req
	bad.Len = 65
	g.wantFault(r, &bad, OutOfBounds) // does not consume it
	if g.Spend(k, 1) {
		t.Error("an operation that failed its check spent the key")
	}
	g.wantFault(r, req, None)
	req.Addr = 32
	g.wantFault(r, req, None) // the next chunk of the same operation
	second := *req
	second.Claim = 2
	g.wantFault(r, &second, Spent)
	if !g.Spend(k, 1) {
		t.Error("Spend did not retire the key")
	}
	g.wantFault(r, &second, Revoked)
	g.wantFault(r, req, Revoked)
	if g.Spend(k, 1) || g.Unclaim(k, 1) {
		t.Error("the key was retired twice")
	}
	g.want(g.own.Free(k), ErrKey)
	g.ok(g.own.Barrier(t.Context()))
	if n := g.own.Pinned(); n != 0 {
		t.Errorf("%d bytes pinned by a spent region", n)
	}
}

func TestMRREQ31FailedOperationGivesTheRegionBack(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	r := g.reader("r")
	k, req := g.once(1)
	g.wantFault(r, req, None)
	if g.Unclaim(k, 2) || g.Unclaim(k, 0) || g.Unclaim(k+1, 1) {
		t.Error("somebody else gave the region back")
	}
	if !g.Unclaim(k, 1) {
		t.Error("Unclaim")
	}
	second := *req
	second.Claim = 2
	g.wantFault(r, &second, None)
	g.wantFault(r, req, Spent)
	if g.Spend(k, 1) || !g.Spend(k, 2) {
		t.Error("the wrong operation spent the key")
	}
}

func TestUseOnceNeedsAClaimFromPeersOnly(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	r := g.reader("r")
	k, req := g.once(0)
	g.wantFault(r, req, Spent)
	g.wantFault(r, &Request{Key: k, Domain: g.dom, Rights: LocalWrite, Len: 64}, None)
	if g.Spend(k, 0) {
		t.Error("no claim spent the key")
	}
	plain, _ := g.region(8, 0, RemoteRead)
	if g.Spend(plain, 1) || g.Spend(0, 1) || g.Unclaim(plain, 1) || g.Unclaim(0, 1) {
		t.Error("Spend or Unclaim of no use-once region")
	}
}

func TestMRREQ32OneOfTwoConcurrentFirstUsesWins(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	const peers = 4
	var readers [peers]*Reader
	for i := range readers {
		readers[i] = g.reader("r")
	}
	for range 500 {
		k, req := g.once(0)
		var passed, spent atomic.Int32
		var wg sync.WaitGroup
		for i, r := range readers {
			req := *req
			req.Claim = uint64(i + 1)
			wg.Go(func() {
				switch f := fault(r, &req); f {
				case None:
					passed.Add(1)
					if g.Spend(k, req.Claim) {
						spent.Add(1)
					}
				case Spent, Revoked:
				default:
					t.Error(f)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 1 || spent.Load() != 1 {
			t.Fatalf("%d operations passed, %d spent the key", passed.Load(), spent.Load())
		}
	}
}

// TestMRREQ33SpentKeyIsDeadBeforeTheMessageIsReadable: whoever delivers calls
// Spend first, and needs no worker nor a later step for the key to be dead.
func TestMRREQ33SpentKeyIsDeadBeforeTheMessageIsReadable(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{Linger: -1})
	r := g.reader("r")
	k, req := g.once(1)
	g.wantFault(r, req, None)
	message := make(chan Key, 1)
	if g.Spend(k, 1) {
		message <- k
	}
	g.wantFault(r, req, Revoked)
	if <-message != k {
		t.Error("no message")
	}
	// Send with Invalidate is the other way to deliver and invalidate at once.
	k2, _ := g.region(8, 0, RemoteRead)
	if f := r.Revoke(k2, g.dom, peerA); f != None {
		t.Fatal(f)
	}
	g.wantFault(r, g.read(k2, 1), Revoked)
}

// TestMRREQ34LinkLostBeforeTheMessageLeavesTheRegion: an operation whose data was placed but
// whose message never came is not a success and spends nothing.
func TestMRREQ34LinkLostBeforeTheMessageLeavesTheRegion(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	r := g.reader("r")
	k, req := g.once(1)
	g.wantFault(r, req, None) // placed
	if !g.Unclaim(k, 1) {     // the link is lost
		t.Fatal("Unclaim")
	}
	if g.Spend(k, 1) {
		t.Error("a message after the loss succeeded")
	}
	req.Claim = 2 // sent again, as another operation
	g.wantFault(r, req, None)
	if !g.Spend(k, 2) {
		t.Error("the repeated operation failed")
	}
}

func TestRevokeChecksWhoAsks(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
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
	if f := r.Revoke(k, g.dom, peerB); f != WrongPeer {
		t.Errorf("Revoke by another peer: %v", f)
	}
	g.wantFault(r, g.read(k, 8), None)
	if f := r.Revoke(k, g.dom, peerA); f != None {
		t.Error(f)
	}
	if f := r.Revoke(k, g.dom, peerA); f != Revoked {
		t.Errorf("Revoke twice: %v", f)
	}
	g.want(g.own.Free(k), ErrKey)
	if s := g.Stats(); s.Offenders[peerA] != 5 || s.Offenders[peerB] != 1 {
		t.Errorf("%v", s.Offenders)
	}
}
