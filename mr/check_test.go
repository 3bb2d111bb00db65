package mr

import (
	"math/big"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/rds-go/rds/internal/invariants"
)

// judge is Check without cleverness: whole numbers that cannot overflow.
func judge(g *rig, req *Request, k Key, mem int, opt *Options) Fault {
	begin, n := new(big.Int).SetUint64(req.Addr), new(big.Int).SetUint64(req.Len)
	end := new(big.Int).Add(begin, n)
	base := new(big.Int).SetUint64(opt.Base)
	limit := new(big.Int).Add(base, big.NewInt(int64(mem)))
	remoteUse := req.From.IsValid()
	for _, c := range []struct {
		bad bool
		f   Fault
	}{
		{req.Len == 0, None},
		{g.index(req.Key) != g.index(k), NoRegion},
		{req.Key != k, StaleKey},
		{req.Domain != opt.Domain, WrongDomain},
		{remoteUse && opt.Peer.IsValid() && req.From != opt.Peer, WrongPeer},
		{req.Rights|opt.Rights != opt.Rights, NoRight},
		{end.Cmp(new(big.Int).Lsh(big.NewInt(1), 64)) > 0, Wrap},
		{begin.Cmp(base) < 0 || end.Cmp(limit) > 0, OutOfBounds},
		{req.Rights&RemoteAtomic != 0 && (req.Len != 8 || req.Addr%8 != 0), Misaligned},
		{opt.Once && remoteUse && req.Use == nil, Spent},
	} {
		if c.bad {
			return c.f
		}
	}
	return None
}

// FuzzCheck compares Check with judge for one region and one request.
func FuzzCheck(f *testing.F) {
	f.Add(uint64(1<<32), uint16(64), uint8(7), uint8(0), uint32(0), uint64(0), uint64(64), uint8(4), true)
	f.Add(uint64(0), uint16(64), uint8(15), uint8(3), uint32(0), uint64(8), uint64(8), uint8(8), true)
	f.Add(^uint64(0)-63, uint16(64), uint8(7), uint8(5), uint32(0), uint64(1), uint64(64), uint8(2), false)
	f.Add(uint64(100), uint16(64), uint8(7), uint8(9), uint32(1), ^uint64(0), ^uint64(0), uint8(4), false)
	f.Add(uint64(100), uint16(1), uint8(1), uint8(16), uint32(1<<8), uint64(0), uint64(1)<<63, uint8(200), false)
	words := new([8192]uint64)
	all := unsafe.Slice((*byte)(unsafe.Pointer(words)), 8*len(words))
	f.Fuzz(func(t *testing.T, base uint64, size uint16, rights, flags uint8, key uint32, addr, n uint64, need uint8, use bool) {
		g := newRig(t, Config{})
		opt := Options{Domain: g.dom, Rights: Rights(rights), Base: base, Once: flags&1 != 0}
		if flags&2 != 0 {
			opt.Peer = peerA
		}
		mem := all[base%8:][:size]
		k, err := g.own.Register(mem, opt)
		if err != nil {
			if size > 0 && opt.Rights.Validate() == nil && base+uint64(size)-1 >= base {
				t.Fatal(err)
			}
			return
		}
		req := &Request{Key: k ^ Key(key), Domain: g.dom, From: peerA, Rights: Rights(need), Addr: base + addr, Len: n}
		if use {
			req.Use = new(Use)
		}
		switch {
		case flags&4 != 0:
			req.From = peerB
		case flags&8 != 0:
			req.From = netip.Addr{}
		case flags&16 != 0:
			req.Domain = nil
		}
		r := g.reader("r")
		r.Enter()
		b, got := r.Check(req)
		if want := judge(g, req, k, len(mem), &opt); got != want {
			t.Fatalf("%v, want %v, for %+v in %+v", got, want, req, opt)
		}
		if got == None && n > 0 {
			if off := addr; uint64(len(b)) != n || cap(b) != len(b) || &b[0] != &mem[off] {
				t.Fatalf("wrong memory: %d bytes of capacity %d", len(b), cap(b))
			}
		} else if b != nil {
			t.Fatalf("%v with memory", got)
		}
		r.Leave()
	})
}

func TestDataPathAllocatesNothing(t *testing.T) {
	g := newRig(t, Config{Linger: -1})
	r := g.reader("r")
	k, mem := g.region(64, 0, readWrite)
	good, bad := g.read(k, 8), g.read(k+1, 8)
	fault(r, bad) // the offender's entry
	word := alignedWord(0)
	use := new(Use)
	var o *Owner = g.own
	opt := g.options(readWrite)
	for name, f := range map[string]func(){
		"check":     func() { fault(r, good) },
		"bad check": func() { fault(r, bad); _ = StaleKey.Err() },
		"atomics":   func() { FetchAdd(word, 1, 1<<31); CompareSwap(word, 0, 1, 2, 3) },
		"map and lazy free": func() {
			k, err := o.Map(mem, opt)
			if err != nil || o.Free(k) != nil {
				t.Error(err)
			}
		},
		"free and invalidate": func() {
			k, err := o.Map(mem, opt)
			if err != nil || o.FreeInvalidate(t.Context(), k) != nil {
				t.Error(err)
			}
		},
		"use once": func() {
			once := opt
			once.Once = true
			k, err := o.Map(mem, once)
			req := *good
			req.Key, req.Use = k, use
			if err != nil || fault(r, &req) != None {
				t.Error(err)
			}
			g.Finish(use, true)
			if o.Barrier(t.Context()) != nil || o.Free(k) != ErrKey {
				t.Error("the region goes on")
			}
		},
	} {
		for range 300 { // lists reach their size, a base its rest
			f()
		}
		g.ok(o.Barrier(t.Context()))
		same(t, name+", allocations", testing.AllocsPerRun(200, f), 0)
	}
}

func TestMisuseOfReadersPanicsUnderInvariants(t *testing.T) {
	t.Parallel()
	if !invariants.Enabled {
		t.Skip("needs -tags invariants or -race")
	}
	g := newRig(t, Config{})
	for name, f := range map[string]func(*Reader){
		"nested":                func(r *Reader) { r.Enter(); r.Enter() },
		"left twice":            func(r *Reader) { r.Enter(); r.Leave(); r.Leave() },
		"check outside":         func(r *Reader) { r.Check(&Request{}) },
		"check outside, length": func(r *Reader) { r.Check(&Request{Len: 1}) },
		"closed inside":         func(r *Reader) { r.Enter(); r.Close() },
		"revoke inside":         func(r *Reader) { r.Enter(); r.Revoke(0, g.dom, peerA) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(g.NewReader(name, nil))
		}()
	}
	g.readers.Store(new([]*Reader)) // they are stuck for ever
}

// TestRecycledMappingIsMetUnderInvariants breaks the rules: a slot still
// points to a mapping that was recycled.
func TestRecycledMappingIsMetUnderInvariants(t *testing.T) {
	t.Parallel()
	if !invariants.Enabled {
		t.Skip("needs -tags invariants or -race")
	}
	g := newRig(t, Config{})
	k, _ := g.region(8, 0, RemoteRead)
	m := g.table.known(k).live.Load()
	g.ok(g.own.FreeInvalidate(t.Context(), k))
	g.table.known(k).live.Store(m)
	r := g.reader("r")
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		r.Leave()
	}()
	r.Enter()
	r.Check(g.read(k, 1))
}

// The bounds of a region are those of the slice that was mapped, whatever capacity it has: what
// lies behind belongs to others.
func TestBoundsAreTheLengthNotTheCapacity(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	for _, mem := range [][]byte{make([]byte, 64, 128), make([]byte, SmallSize, 2*SmallSize), make([]byte, 1, LargeSize)} {
		k := g.mapped(g.own, mem, g.options(RemoteRead|RemoteWrite|LocalWrite))
		n := uint64(len(mem))
		g.wantFault(r, &Request{Key: k, Domain: g.dom, Rights: RemoteWrite, Len: n}, None)
		for _, q := range []Request{{Len: n + 1}, {Addr: n, Len: 1}, {Addr: n - 1, Len: 2}, {Len: uint64(cap(mem))}} {
			q.Key, q.Domain, q.Rights = k, g.dom, RemoteWrite
			g.wantFault(r, &q, OutOfBounds)
		}
	}
}
