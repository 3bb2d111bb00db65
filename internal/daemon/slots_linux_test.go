//go:build live

package daemon

import (
	"testing"
	"time"
	"unsafe"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A slot is not used again as long as an application that does not look may have it: one
// with the feature while a message that names the slot is spilled, in a queue because the
// application cannot read spilled ones, or on the ring; one without the feature as long as
// it is attached, and then for a rest, because the application may still read the ring.
func TestSlotIsKeptWhileNamed(t *testing.T) {
	t.Parallel()
	for _, features := range [][]string{{ipc.FeatureSlots, ipc.FeatureSpill}, {ipc.FeatureSlots}, {ipc.FeatureSpill}} {
		l := newLoopLab(t)
		n, svc, path := served(t, l, config.Node{}, config.Service{})
		sweepByHand(n, ipc.MaxPeers-2)
		e := intrude(t, path, features...)
		id, port := e.bind(rdstest.AddrOf(rdstest.NewAddr(), 0))
		x := svc.all()[0]
		stays, ends := l.bindOne(config.Node{}), l.bindOne(config.Node{})
		x.mu.Lock()
		to := x.sockets[id&0xffff].s.Local()
		x.mu.Unlock()
		if to.Port() != port {
			t.Fatal(to, port)
		}
		for range ringEntries {
			rdstest.MustSend(t, stays, to, []byte("x"))
		}
		rdstest.Eventually(t, "the ring to be full", func() bool { return e.word(rawCQTail).Load()-e.word(rawCQHead).Load() == ringEntries })
		rdstest.MustSend(t, ends, to, []byte("spilled"))
		rdstest.Eventually(t, "a message to wait", func() bool { return x.info().Waiting == 1 })
		slot := n.Known(to.Addr(), ends.LocalAddrPort().Addr()).Index
		was := svc.table.Slot(int(slot))
		kept := func(where string) {
			t.Helper()
			if told := sweptOf(n); told != 1 || svc.table.Slot(int(slot)) != was {
				t.Errorf("%v: the slot of a message %s is free", features, where)
			}
		}
		_ = nodeOf(ends).Close()
		rdstest.Eventually(t, "the end of the peer", func() bool { return rdstest.Peers(n) == 1 })
		kept("that is spilled or queued")
		e.word(rawCQHead).Add(ringEntries)
		e.ring()
		rdstest.Eventually(t, "the entry to be on the ring", func() bool { return e.word(rawCQTail).Load()-e.word(rawCQHead).Load() == 1 })
		kept("on the ring")
		e.word(rawCQHead).Add(1)
		if features[0] != ipc.FeatureSlots {
			kept("that the application may remember")
			n.Mu.Lock()
			n.Index.Told[0].Since = time.Now().Add(-2 * time.Hour)
			n.Mu.Unlock()
			e.leave()
			rdstest.Eventually(t, "the end of the session", func() bool { return len(svc.all()) == 0 })
			if told := sweptNow(n); told != 1 || svc.table.Slot(int(slot)) != was {
				t.Errorf("%v: the slot of a message that the application may still read is free", features)
			}
			if told := sweptOf(n); told != 0 {
				t.Errorf("%d slots are kept for nobody", told)
			}
			continue
		}
		if told := sweptOf(n); told != 0 {
			t.Errorf("%d slots are kept", told)
		}
		other := l.bindOne(config.Node{})
		rdstest.MustSend(t, other, to, []byte("y"))
		rdstest.Eventually(t, "another peer", func() bool { return rdstest.Peers(n) == 2 })
		if _, remote, ok := svc.table.Peer(int(slot)); !ok || remote != other.LocalAddrPort().Addr() || svc.table.Slot(int(slot)) != was+1 {
			t.Errorf("slot %d is of %v, generation %d, want %v", slot, remote, svc.table.Slot(int(slot)), other.LocalAddrPort().Addr())
		}
		e.leave()
	}
}

// An application that writes to entries of its ring keeps no slots but those that it was
// told of and has not taken: not a slot that it had a message from before the slot was
// another peer's, whose messages went to somebody else.
func TestLiarKeepsNoSlotsOfOthers(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, svc, path := served(t, l, config.Node{}, config.Service{})
	sweepByHand(n, ipc.MaxPeers-2)
	e := intrude(t, path, ipc.FeatureSlots)
	here := rdstest.NewAddr()
	_, port := e.bind(rdstest.AddrOf(here, 0))
	good := bound(t, dialed(t, path), rdstest.AddrOf(here, 5))
	first, stays := l.bindOne(config.Node{}), l.bindOne(config.Node{})
	rdstest.MustSend(t, first, rdstest.AddrOf(here, port), []byte("x"))
	rdstest.Eventually(t, "a message to be on the ring", func() bool { return e.word(rawCQTail).Load() == 1 })
	slot := n.Known(here, first.LocalAddrPort().Addr()).Index
	e.word(rawCQHead).Store(1)
	_ = nodeOf(first).Close()
	rdstest.Eventually(t, "the end of the peer", func() bool { return rdstest.Peers(n) == 0 })
	if sweptOf(n) != 0 {
		t.Fatal("a slot is kept for nobody")
	}
	second := l.bindOne(config.Node{})
	rdstest.MustSend(t, second, good.LocalAddrPort(), []byte("y"))
	rdstest.Expect(t, good, "y")
	if got := n.Known(here, second.LocalAddrPort().Addr()).Index; got != slot {
		t.Fatalf("slot %d, want %d", got, slot)
	}
	rdstest.MustSend(t, stays, rdstest.AddrOf(here, port), []byte("z"))
	rdstest.Eventually(t, "another message to be on the ring", func() bool { return e.word(rawCQTail).Load() == 2 })
	entry := (*ipc.Entry)(unsafe.Pointer(&e.raw[rawCQ+32]))
	if entry.Op() != ipc.OpMessage || entry.Peer() == slot {
		t.Fatalf("%v, peer %d", entry.Op(), entry.Peer())
	}
	*entry = ipc.MakeEntry(ipc.OpMessage, 0, 0, entry.Socket(), slot, 0, 0, ipc.NoBlock, 0)
	_ = nodeOf(second).Close()
	rdstest.Eventually(t, "the end of the other peer", func() bool { return rdstest.Peers(n) == 1 })
	if told := sweptOf(n); told != 0 || svc.table.Slot(int(slot)) != 0 {
		t.Errorf("%d slots are kept by a lie", told)
	}
	e.leave()
}

// A process that takes over goes on with the generations of slots, and keeps slots for the
// applications that it takes over as its predecessor did: for one with the feature while an
// entry of the ring names the slot, for one without as long as it is attached.
func TestSlotsAreTakenOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config.Node{Wire: config.WireTCP}
	n, svc, path := served(t, l, cfg, config.Service{})
	sweepByHand(n, ipc.MaxPeers-4)
	looks := intrude(t, path, ipc.FeatureSlots, ipc.FeatureSpill, ipc.FeatureMoves)
	old := intrude(t, path, ipc.FeatureSpill, ipc.FeatureMoves)
	here := rdstest.NewAddr()
	_, lookPort := looks.bind(rdstest.AddrOf(here, 0))
	_, oldPort := old.bind(rdstest.AddrOf(here, 0))
	told := func(e *evil, port uint16, took uint64) (slot int) { // the slot is that of a peer that has ended
		t.Helper()
		far := l.bindOne(config.Node{Wire: config.WireTCP})
		rdstest.MustSend(t, far, rdstest.AddrOf(here, port), []byte("x"))
		rdstest.Eventually(t, "the message to be on the ring", func() bool { return e.word(rawCQTail).Load() == took+1 })
		slot = int(n.Known(here, far.LocalAddrPort().Addr()).Index)
		_ = nodeOf(far).Close()
		rdstest.Eventually(t, "the end of the peer", func() bool { return rdstest.Peers(n) == 0 })
		return slot
	}
	again := told(looks, lookPort, 0)
	looks.word(rawCQHead).Add(1)
	if sweptOf(n) != 0 {
		t.Fatal("a slot is kept for nobody")
	}
	looked, kept := told(looks, lookPort, 1), told(old, oldPort, 0)
	if looked != again || kept == looked {
		t.Fatalf("slots %d, %d, %d", again, looked, kept)
	}
	generation := svc.table.Slot(looked)

	legacy, err := Bequeath(rdstest.Background(t), n)
	rdstest.Must(t, err)
	cfg.Port, cfg.Linger = l.Port, -1
	h, err := Succeed(cfg, config.Service{}, legacy)
	rdstest.Must(t, err)
	setRest(h.Node, time.Hour)
	h.Begin()
	table := h.Service.table
	if got := table.Slot(looked); got != generation || got != table.Slot(kept)+1 {
		t.Errorf("generations %d and %d, want %d and %d", got, table.Slot(kept), generation, svc.table.Slot(kept))
	}
	if _, remote, ok := svc.table.Peer(looked); !ok || !remote.IsValid() {
		t.Error("the address of a peer that has ended is lost")
	} else if _, got, _ := table.Peer(looked); got != remote {
		t.Errorf("slot %d is of %v, want %v", looked, got, remote)
	}
	if n := sweptOf(h.Node); n != 2 {
		t.Errorf("%d slots are kept that entries of rings name, want 2", n)
	}
	looks.word(rawCQHead).Add(1)
	old.word(rawCQHead).Add(1)
	if n := sweptOf(h.Node); n != 1 || table.Slot(looked) != 0 || table.Slot(kept) == 0 {
		t.Errorf("%d slots are kept, generations %d and %d: one for the application without the feature is wanted", n, table.Slot(looked), table.Slot(kept))
	}
	old.leave()
	rdstest.Eventually(t, "the end of the session", func() bool { return len(h.Service.all()) == 1 })
	if n := sweptOf(h.Node); n != 0 {
		t.Errorf("%d slots are kept for nobody", n)
	}
	looks.leave()
	rdstest.Eventually(t, "the end of the sessions", func() bool { return len(h.Service.all()) == 0 })
	_ = h.Service.Close()
	_ = h.Node.Close()
	Return(n)
}
