package mr

import (
	"bytes"
	"syscall"
	"testing"
	"time"
)

func TestMRREQ35ReadOnlyRegionsRefuseWrites(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	k, mem := g.region(64, 1, RemoteRead)
	for _, rights := range []Rights{RemoteWrite, RemoteRead | RemoteWrite, RemoteAtomic} {
		req := g.read(k, 8)
		req.Rights = rights
		g.wantFault(r, req, NoRight)
	}
	g.wantFault(r, g.read(k, 64), None)
	if bytes.Count(mem, []byte{1}) != 64 {
		t.Error("bytes changed")
	}
}

// TestMRREQ36FailedMapsLeaveNothing: neither a map that fails nor one whose
// message could not be sent, and is therefore freed, leaves anything behind.
func TestMRREQ36FailedMapsLeaveNothing(t *testing.T) {
	g := parallelRig(t, Config{})
	closed := g.NewDomain()
	g.ok(closed.Close())
	g.want(closed.Close(), ErrDomain)
	for range 300 {
		_, err := g.own.Map(make([]byte, 64), Options{Domain: closed})
		g.want(err, ErrDomain)
		g.want(err, syscall.EINVAL)
		g.want(errOf(g.own.Map(make([]byte, 64), Options{Domain: g.dom, Rights: RemoteWrite})), ErrRights)
		g.ok(g.own.Free(g.mapped(g.own, make([]byte, 64), g.options(0))))
	}
	g.ok(g.own.Barrier(t.Context()))
	s := g.Stats().Small
	if s.Live != 0 || s.Dirty != 0 || s.Pinned != 0 || g.own.Pinned() != 0 || s.Clean != 600 {
		t.Errorf("%+v, %d bytes of the owner", s, g.own.Pinned())
	}
	g.ok(g.dom.Close())
}

func TestMRREQ37PinsCountUntilTheGracePeriodEnds(t *testing.T) {
	inBubble(t, Config{}, func(g *rig) {
		r := g.reader("r")
		pinned := func(when string, want int64) {
			g.Helper()
			s := g.Stats()
			if got := s.Small.Pinned + s.Large.Pinned + s.Registered.Pinned; got != want || g.own.Pinned() != want {
				g.Errorf("%s: %d bytes, of the owner %d, want %d", when, got, g.own.Pinned(), want)
			}
		}
		a, _ := g.region(100, 0, RemoteRead)
		b, _ := g.region(SmallSize+1, 0, RemoteRead)
		c, err := g.own.Register(make([]byte, 3<<20), g.options(RemoteRead))
		g.ok(err)
		const all = 100 + SmallSize + 1 + 3<<20
		pinned("mapped", all)
		r.Enter()
		g.ok(g.own.Free(a))
		g.ok(g.own.Free(b))
		pinned("freed", all)
		done := later(func() error { return g.own.FreeInvalidate(g.Context(), c) })
		g.blocked(done, "FreeInvalidate")
		pinned("invalidating", all)
		r.Leave()
		g.ok(<-done)
		pinned("invalid", 0)
	})
}

func TestMRREQ38HogLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]PoolConfig{
		"items":  {Items: 64},
		"pinned": {Items: 4096, Pinned: 64 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			g := parallelRig(t, Config{Small: p, MapWait: -1, Linger: -1})
			for i, want := range []int{32, 16, 8, 4, 2, 1} {
				hog := g.NewOwner(OwnerConfig{})
				n := 0
				for ; ; n++ {
					k, err := hog.Map(make([]byte, 64), g.options(0))
					if err != nil {
						g.want(err, ErrExhausted)
						g.want(err, syscall.EAGAIN)
						break
					}
					if n%2 == 0 { // freed and not invalidated: still the hog's
						g.ok(hog.Free(k))
						g.ok(hog.Barrier(t.Context()))
						g.ok(errOf(hog.Map(make([]byte, 64), g.options(0))))
					}
				}
				if n != want {
					t.Errorf("hog %d got %d regions, want %d", i+1, n, want)
				}
				same(t, "the limit was reached times", g.Stats().Small.Full, uint64(i+1))
			}
		})
	}
}

func TestMRREQ38LimitsHaveTheirErrors(t *testing.T) {
	g := parallelRig(t, Config{MapWait: -1})
	o := g.NewOwner(OwnerConfig{Pinned: 1000, Items: 3})
	_, err := o.Map(make([]byte, 1001), g.options(0))
	g.want(err, ErrPinned)
	g.want(err, syscall.EPERM)
	_, err = o.Register(make([]byte, 1001), g.options(0))
	g.want(err, ErrMemory)
	g.want(err, syscall.ENOMEM)
	same(t, "refusals counted", g.Stats().Refused, 2)
	_, err = o.Map(make([]byte, LargeSize+1), g.options(0))
	g.want(err, ErrTooLong)
	g.want(err, syscall.EMSGSIZE)
	_, err = o.Map(nil, g.options(0))
	g.want(err, ErrEmpty)
	g.want(err, syscall.EINVAL)
	for range 3 {
		g.mapped(o, make([]byte, 10), g.options(0))
	}
	g.want(errOf(o.Map(make([]byte, 10), g.options(0))), ErrExhausted)
	for range 3 {
		g.ok(errOf(o.Register(make([]byte, 10), g.options(0))))
	}
	g.want(errOf(o.Register(make([]byte, 10), g.options(0))), ErrMemory)
}

func TestTableHasALimit(t *testing.T) {
	g := parallelRig(t, Config{Bases: 2, MapWait: -1})
	g.region(8, 0, 0)
	g.region(8, 0, 0)
	g.want(errOf(g.own.Map(make([]byte, 8), g.options(0))), ErrExhausted)
	if s := g.Stats().Small; s.Full != 1 || s.Live != 2 {
		t.Errorf("%+v", s)
	}
}

func TestMRREQ39StatsCountWhatHappens(t *testing.T) {
	inBubble(t, Config{Linger: -1}, func(g *rig) {
		r := g.reader("r")
		var keys []Key
		for range 5 {
			k, _ := g.region(100, 0, RemoteRead)
			keys = append(keys, k)
		}
		for _, k := range keys[:3] {
			g.ok(g.own.Free(k))
		}
		s := g.Stats()
		if p := s.Small; p.Live != 2 || p.Dirty != 3 || p.Clean != 0 || p.Pinned != 500 {
			g.Errorf("after the frees: %+v", p)
		}
		r.Enter()
		done := later(func() error { return g.own.Barrier(g.Context()) })
		g.blocked(done, "Barrier")
		<-time.After(3 * time.Millisecond)
		r.Leave()
		g.ok(<-done)
		g.wantFault(r, g.read(keys[0], 1), Revoked)
		g.wantFault(r, g.read(keys[4], 101), OutOfBounds)
		g.wantFault(r, g.read(keys[4], 101), OutOfBounds)
		s = g.Stats()
		if p := s.Small; p.Live != 2 || p.Dirty != 0 || p.Clean != 3 || p.Pinned != 200 {
			g.Errorf("after the barrier: %+v", p)
		}
		if s.Invalidations != 3 || s.Batches != 1 || s.LargestBatch != 3 || s.Stale != 0 {
			g.Errorf("%+v", s)
		}
		if s.BatchSize[2] != 1 || s.GraceTime[12] != 1 { // 2..3 regions, 2048..4095 µs
			g.Errorf("batches %v, grace periods %v", s.BatchSize, s.GraceTime)
		}
		if s.BadKeys[Revoked] != 1 || s.BadKeys[OutOfBounds] != 2 || s.Offenders[peerA] != 3 {
			g.Errorf("bad keys %v of %v", s.BadKeys, s.Offenders)
		}
	})
}

// TestMRREQ40InvalidationCutsATransferShort: a write of 1 MiB in chunks of
// 64 KiB, invalidated after the fifth.
func TestMRREQ40InvalidationCutsATransferShort(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	k, mem := g.region(LargeSize, 0, readWrite)
	const chunk = 64 << 10
	success := true
	for i := range uint64(LargeSize / chunk) {
		if i == 5 {
			g.ok(g.own.FreeInvalidate(t.Context(), k))
		}
		r.Enter()
		b, f := r.Check(&Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteWrite, Addr: i * chunk, Len: chunk})
		for j := range b {
			b[j] = 1
		}
		r.Leave()
		success = success && f == None
	}
	if success {
		t.Error("the transfer was a success")
	}
	if n := bytes.Count(mem, []byte{1}); n != 5*chunk || mem[n] != 0 {
		t.Errorf("%d bytes were placed", n)
	}
}

func TestDomainIsBusyWhileRegionsLive(t *testing.T) {
	g := parallelRig(t, Config{})
	k, _ := g.region(8, 0, 0)
	g.want(g.dom.Close(), ErrBusy)
	g.want(g.dom.Close(), syscall.EBUSY)
	g.ok(g.own.Free(k))
	g.ok(g.dom.Close())
	g.want(errOf(g.own.Map(make([]byte, 8), g.options(0))), ErrDomain)
	same(t, "regions live", g.Stats().Small.Live, 0)
}
