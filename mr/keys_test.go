package mr

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMRREQ1OnlyTheNewestKeyOfABaseWorks(t *testing.T) {
	g := parallelRig(t, Config{Small: PoolConfig{Items: 1}})
	r := g.reader("r")
	k, _ := g.region(64, 0, RemoteRead)
	keys := []Key{k}
	for range 20 {
		g.ok(g.own.FreeInvalidate(t.Context(), k))
		next, _ := g.region(64, 0, RemoteRead)
		if g.index(next) != g.index(k) || g.version(next) != g.version(k)+1 {
			t.Fatalf("key %v follows %v", next, k)
		}
		k = next
		keys = append(keys, k)
	}
	for _, old := range keys[:20] {
		g.wantFault(r, g.read(old, 1), StaleKey)
	}
	g.wantFault(r, g.read(k, 1), None)
}

// TestMRREQ2NewMemoryIsNeverShownToOldKeys has readers hammer the keys of a few bases whose
// regions are freed and mapped again all the time, without a call that invalidates.
func TestMRREQ2NewMemoryIsNeverShownToOldKeys(t *testing.T) {
	g := parallelRig(t, Config{Small: PoolConfig{Items: 4}, MapWait: 5 * time.Second})
	o := g.NewOwner(OwnerConfig{Items: 4})
	const n, maps = 64, 800
	var keys [maps]atomic.Uint32 // keys[i] is the key of the memory full of byte(i)
	var newest atomic.Int32
	k := g.mapped(o, make([]byte, n), g.options(RemoteRead))
	keys[0].Store(uint32(k))
	var wg sync.WaitGroup
	var over atomic.Bool
	var old atomic.Uint64
	for range 3 {
		r := g.reader("r")
		wg.Go(func() {
			for back := int32(0); !over.Load(); back = (back + 1) % 8 {
				i := max(0, newest.Load()-back)
				r.Enter()
				b, f := r.Check(g.read(Key(keys[i].Load()), n))
				switch {
				case f != None:
					old.Add(1)
				case b[0] != byte(i) || b[n-1] != byte(i):
					t.Errorf("key of mapping %d reads memory of mapping %d", i, b[0])
				}
				r.Leave()
			}
		})
	}
	again := 0
	seen := map[uint32]bool{}
	for i := 1; i < maps; i++ {
		g.ok(o.Free(k))
		k = g.mapped(o, bytes.Repeat([]byte{byte(i)}, n), g.options(RemoteRead))
		keys[i].Store(uint32(k))
		newest.Store(int32(i))
		again += btoi(seen[g.index(k)])
		seen[g.index(k)] = true
	}
	for old.Load() == 0 { // the keys of before are dead now
		runtime.Gosched()
	}
	over.Store(true)
	wg.Wait()
	if again < maps/2 {
		t.Errorf("%d mappings had a base that was used before, %d look-ups of dead keys", again, old.Load())
	}
}

// TestMRREQ3OldMemoryIsReleasedAfterItsReaders has a region freed and another one mapped
// while a reader copies from the first.
func TestMRREQ3OldMemoryIsReleasedAfterItsReaders(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r, r2 := g.reader("slow"), g.reader("other")
		opt := g.options(RemoteRead)
		released := false
		opt.Released = func() { released = true }
		k := g.mapped(g.own, make([]byte, 100), opt)
		r.Enter()
		if _, f := r.Check(g.read(k, 1)); f != None {
			g.Fatal(f)
		}
		g.ok(g.own.Free(k))
		next := g.mapped(g.own, make([]byte, 10), g.options(RemoteRead))
		g.wantFault(r2, g.read(next, 10), None) // the new memory does not wait for the old
		done := later(func() error { return g.own.Barrier(g.Context()) })
		g.blocked(done, "a barrier with a reader of the old memory")
		if released || g.own.Pinned() != 110 {
			g.Errorf("released %v, %d bytes pinned during the copy", released, g.own.Pinned())
		}
		r.Leave()
		g.ok(<-done)
		if !released || g.own.Pinned() != 10 {
			g.Errorf("released %v, %d bytes pinned after the copy", released, g.own.Pinned())
		}
	})
}

func TestMRREQ4FirstKeyStaysDeadAfter257Maps(t *testing.T) {
	inBubble(t, Config{Small: PoolConfig{Items: 4}}, func(g *rig) {
		r := g.reader("r")
		opt := g.options(RemoteRead)
		first := g.mapped(g.own, make([]byte, 8), opt)
		seen := map[Key]bool{first: true}
		for k := first; len(seen) < 4*256; {
			g.ok(g.own.FreeInvalidate(g.Context(), k))
			k = g.mapped(g.own, make([]byte, 8), opt)
			if seen[k] {
				g.Fatalf("key %v came again after %d mappings", k, len(seen))
			}
			seen[k] = true
			g.wantFault(r, g.read(k, 1), None)
			if f := fault(r, g.read(first, 1)); f == None {
				g.Fatalf("the first key works after %d mappings", len(seen))
			}
		}
	})
}

func TestMRREQ4UsedUpBaseRestsAndComesBack(t *testing.T) {
	c := Config{Small: PoolConfig{Items: 1}, Bases: 2, Quarantine: time.Minute, Linger: -1}
	inBubble(t, c, func(g *rig) {
		opt := g.options(RemoteRead)
		use := func() (Key, error) {
			k, err := g.own.Map(make([]byte, 8), opt)
			if err == nil {
				err = g.own.FreeInvalidate(g.Context(), k)
			}
			return k, err
		}
		uses := map[uint32]int{}
		for range 2 * maxUses {
			k, err := use()
			g.ok(err)
			uses[g.index(k)]++
		}
		for index, n := range uses {
			if n != maxUses {
				g.Errorf("base %d was mapped %d times", index, n)
			}
		}
		if s := g.Stats().Small; s.Resting != 2 || s.Clean != 0 {
			g.Errorf("both bases should rest: %+v", s)
		}
		g.want(errOf(use()), ErrExhausted)
		<-time.After(time.Minute) // of the bubble
		g.ok(errOf(use()))
	})
}

// TestMRREQ5BasesAreReusedOldestFirst counts the maps between the free of a
// base and its next use.
func TestMRREQ5BasesAreReusedOldestFirst(t *testing.T) {
	t.Parallel()
	const items, live = 32, 12
	g := newRig(t, Config{Small: PoolConfig{Items: items}})
	o := g.NewOwner(OwnerConfig{Items: items})
	var held []Key
	for range live {
		held = append(held, g.mapped(o, make([]byte, 8), g.options(RemoteRead)))
	}
	freed := map[uint32]int{}
	for n := range 1000 {
		k := held[n*7%live]
		g.ok(o.FreeInvalidate(t.Context(), k))
		freed[g.index(k)] = n
		next := g.mapped(o, make([]byte, 8), g.options(RemoteRead))
		if last, again := freed[g.index(next)]; again && n-last < items-live {
			t.Fatalf("base reused after %d maps, want at least %d", n-last, items-live)
		}
		held[n*7%live] = next
	}
	if len(freed) != items {
		t.Errorf("%d bases in use, want all %d", len(freed), items)
	}
}
