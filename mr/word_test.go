package mr

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// alignedWord is 8 aligned bytes that hold v.
func alignedWord(v uint64) []byte {
	p := new(uint64)
	*p = v
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), 8)
}

// addBitwise is RFC 7306 section 5.1 bit by bit.
func addBitwise(old, add, mask uint64) (sum uint64) {
	carry := uint64(0)
	for bit := uint64(1); bit != 0; bit <<= 1 {
		n := carry
		if old&bit != 0 {
			n++
		}
		if add&bit != 0 {
			n++
		}
		if n&1 != 0 {
			sum |= bit
		}
		if carry = n >> 1; mask&bit != 0 {
			carry = 0
		}
	}
	return sum
}

// swapBitwise is RFC 7306 section 5.2 bit by bit.
func swapBitwise(old, compare, compareMask, swap, swapMask uint64) uint64 {
	n := old
	for bit := uint64(1); bit != 0; bit <<= 1 {
		if compareMask&bit != 0 && old&bit != compare&bit {
			return old
		}
		if swapMask&bit != 0 {
			n = n&^bit | swap&bit
		}
	}
	return n
}

func TestAtomicsTable(t *testing.T) {
	t.Parallel()
	const m = ^uint64(0)
	for _, c := range []struct{ old, add, mask, want uint64 }{
		{1, 2, 0, 3},
		{m, 1, 0, 0},
		{0xffffffff, 1, 1 << 31, 0}, // two fields of 32 bits
		{0x00000001ffffffff, 0x00000001_00000001, 1 << 31, 0x200000000}, // each wraps by itself
		{m, m, m, 0},          // 64 fields of one bit: exclusive or
		{0x7f, 1, 0x80, 0x80}, // into the top bit of its field
		{0xff, 1, 0x80, 0},    // and not out of it
		{0xf0f0f0f0f0f0f0f0, 0x1010101010101010, 0x8080808080808080, 0x0}, // 8 bytes
		{0x0123456789abcdef, 0, 0x8080808080808080, 0x0123456789abcdef},   // nothing added
		{1 << 63, 1 << 63, 1 << 63, 0},                                    // one field, marked
		{0xfffffffffffffffe, 3, 1 << 63, 1},                               // the same with a carry
		{0x00ff, 0x0101, 0x8000 | 0x0080, 0x0100},                         // 8, 8 and 48 bits
	} {
		w := alignedWord(c.old)
		if old := FetchAdd(w, c.add, c.mask); old != c.old || binary.NativeEndian.Uint64(w) != c.want {
			t.Errorf("FetchAdd(%#x, %#x, %#x) = %#x, leaves %#x, want %#x", c.old, c.add, c.mask, old, binary.NativeEndian.Uint64(w), c.want)
		}
	}
	for _, c := range []struct{ old, compare, cmask, swap, smask, want uint64 }{
		{5, 5, m, 9, m, 9},
		{5, 6, m, 9, m, 5},
		{5, 6, 0, 9, m, 9},                // an unconditional swap
		{0x55, 0x05, 0x0f, 0, 0xf0, 0x05}, // looks at one half, writes the other
		{5, 5, m, 9, 0, 5},
	} {
		w := alignedWord(c.old)
		if old := CompareSwap(w, c.compare, c.cmask, c.swap, c.smask); old != c.old || binary.NativeEndian.Uint64(w) != c.want {
			t.Errorf("CompareSwap(%+v) = %#x, leaves %#x", c, old, binary.NativeEndian.Uint64(w))
		}
	}
}

func FuzzFetchAdd(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(0))
	f.Add(^uint64(0), uint64(1), uint64(1)<<31)
	f.Add(uint64(0x8080808080808080), ^uint64(0), uint64(0x8080808080808080))
	f.Fuzz(func(t *testing.T, old, add, mask uint64) {
		w := alignedWord(old)
		if was, now := FetchAdd(w, add, mask), binary.NativeEndian.Uint64(w); was != old || now != addBitwise(old, add, mask) {
			t.Errorf("FetchAdd(%#x, %#x, %#x) = %#x, leaves %#x, want %#x", old, add, mask, was, now, addBitwise(old, add, mask))
		}
	})
}

func FuzzCompareSwap(f *testing.F) {
	f.Add(uint64(5), uint64(5), ^uint64(0), uint64(9), ^uint64(0))
	f.Add(uint64(5), uint64(7), uint64(0xfd), uint64(0xff00), uint64(0x0f00))
	f.Fuzz(func(t *testing.T, old, compare, cmask, swap, smask uint64) {
		w := alignedWord(old)
		want := swapBitwise(old, compare, cmask, swap, smask)
		if was, now := CompareSwap(w, compare, cmask, swap, smask), binary.NativeEndian.Uint64(w); was != old || now != want {
			t.Errorf("CompareSwap(%#x, %#x, %#x, %#x, %#x) = %#x, leaves %#x, want %#x", old, compare, cmask, swap, smask, was, now, want)
		}
	})
}

// TestAtomicsAreAtomic mixes peers' operations with the application's own.
func TestAtomicsAreAtomic(t *testing.T) {
	t.Parallel()
	p := new(uint64)
	w := unsafe.Slice((*byte)(unsafe.Pointer(p)), 8)
	const n = 1000
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() { FetchAdd(w, 1, 0) },
		func() { FetchAdd(w, 1<<32|1, 1<<31) },
		func() { atomic.AddUint64(p, 1) },
		func() {
			for {
				if old := atomic.LoadUint64(p); CompareSwap(w, old, ^uint64(0), old+1, ^uint64(0)) == old {
					return
				}
			}
		},
	} {
		wg.Go(func() {
			for range n {
				f()
			}
		})
	}
	wg.Wait()
	if want := uint64(n<<32 | 4*n); atomic.LoadUint64(p) != want {
		t.Errorf("%#x, want %#x", atomic.LoadUint64(p), want)
	}
}

func TestAtomicsNeedAlignment(t *testing.T) {
	g := parallelRig(t, Config{})
	r := g.reader("r")
	mem := unsafe.Slice((*byte)(unsafe.Pointer(new([4]uint64))), 32)
	opt := g.options(LocalWrite | RemoteAtomic)
	opt.Base = 0x1003
	g.want(errOf(g.own.Map(mem, opt)), ErrBase)
	k := g.mapped(g.own, mem[3:], opt)
	for _, c := range []struct {
		addr, n uint64
		want    Fault
	}{
		{0x1008, 8, None}, {0x1018, 8, None},
		{0x1004, 8, Misaligned}, {0x1008, 4, Misaligned}, {0x1008, 16, Misaligned},
		{0x1000, 8, OutOfBounds}, {0x1020, 8, OutOfBounds}, {0x1019, 8, OutOfBounds},
	} {
		g.wantFault(r, &Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteAtomic, Addr: c.addr, Len: c.n}, c.want)
	}
	r.Enter()
	b, _ := r.Check(&Request{Key: k, Domain: g.dom, From: peerA, Rights: RemoteAtomic, Addr: 0x1010, Len: 8})
	FetchAdd(b, 7, 0)
	r.Leave()
	same(t, "the word holds", binary.NativeEndian.Uint64(mem[16:]), 7)
	for _, bad := range [][]byte{mem[1:9], mem[:4], nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("an operation on %d bytes", len(bad))
				}
			}()
			FetchAdd(bad, 1, 0)
		}()
	}
}
