package mr

import (
	"sync/atomic"
	"unsafe"
)

// FetchAdd adds to the word in memory and returns what it held before
// (RFC 7306 section 5.1). mask splits the word into fields that are added
// without carry from one to the next: a set bit is the most significant one of
// its field, so 0 makes the whole word one field.
//
// word is 8 bytes in host byte order, aligned, as a Check for RemoteAtomic
// returns them. The operation is atomic against sync/atomic, too.
func FetchAdd(word []byte, add, mask uint64) uint64 {
	p := pointer(word)
	if mask == 0 {
		return atomic.AddUint64(p, add) - add
	}
	for {
		// Without their top bits no field can carry into the next; the top bits
		// are then added without a carry of their own.
		old := atomic.LoadUint64(p)
		sum := (old&^mask + add&^mask) ^ ((old ^ add) & mask)
		if atomic.CompareAndSwapUint64(p, old, sum) {
			return old
		}
	}
}

// CompareSwap replaces the bits of swapMask with those of swap if the bits of
// compareMask are those of compare, and returns what the word held before
// (RFC 7306 section 5.2). word is as for FetchAdd.
func CompareSwap(word []byte, compare, compareMask, swap, swapMask uint64) uint64 {
	p := pointer(word)
	for {
		old := atomic.LoadUint64(p)
		if (old^compare)&compareMask != 0 {
			return old
		}
		if atomic.CompareAndSwapUint64(p, old, old&^swapMask|swap&swapMask) {
			return old
		}
	}
}

// pointer panics for what no Check returns: our own bug, out of a peer's reach.
func pointer(word []byte) *uint64 {
	if len(word) != 8 || address(word)%8 != 0 {
		panic("mr: atomic operation on anything but 8 aligned bytes")
	}
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(word)))
}

func address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
