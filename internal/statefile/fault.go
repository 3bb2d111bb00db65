package statefile

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// errLost: a page of the file is not there.
var errLost = errors.New("somebody has cut the file, or its file system is full: it is not used any more")

// storeLocked stores a word of the mapping.
func (s *File) storeLocked(off int, v uint64) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	atomic.StoreUint64(s.word(off), v)
}

// copyLocked copies into the mapping.
func (s *File) copyLocked(off int, b []byte) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	copy(s.mem[off:off+len(b)], b)
}

// mend is deferred by whoever stores to the mapping. If that was a fault, memory of the process
// takes the place of the whole mapping, so that there is no second one. before is what
// debug.SetPanicOnFault has returned.
func (s *File) mend(before bool) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	base := uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))
	if !ok || fault.Addr() < base || fault.Addr() >= base+size {
		panic(r)
	}
	if err := replace(s.mem); err != nil {
		panic(fmt.Sprintf("statefile: %v, and no memory in its place: %v", r, err))
	}
	if !s.lost.Swap(true) {
		go s.failed(fmt.Errorf("statefile: %w", errLost))
	}
}
