package transport

import (
	"fmt"
	"math"
	"syscall"
)

// OpKind says what an Operation does.
type OpKind uint8

// The kinds.
const (
	OpWrite       OpKind = iota // local memory into the peer's region
	OpRead                      // the peer's region into local memory
	OpFetchAdd                  // atomic add to 8 bytes of the peer's region
	OpCompareSwap               // atomic compare and swap of them
)

// OpStatus says how an Operation ended.
type OpStatus uint8

// The ends of an Operation.
const (
	OpSuccess OpStatus = iota
	OpRefused          // refused by the peer (key, bounds, rights); other operations go on
	OpLost             // lost with the link: the operation may have happened, in part, or not at all
	OpFailed           // failed on this host: the operation did not happen
)

// Operation is one access to memory of the peer. It is the link's from the Send that
// begins it to Done, and so is Local.
type Operation struct {
	Kind  OpKind
	Local [][]byte // memory that is written from or read into; for atomics 8 bytes for the old value, in host order
	Key   uint32   // key of the peer's region
	Addr  uint64   // address of the first byte, in the region's address space

	// FetchAdd adds Add in fields that end below the bits set in AddMask.
	// CompareSwap compares the bits of CompareMask, replaces those of SwapMask.
	Add, AddMask         uint64
	Compare, CompareMask uint64
	Swap, SwapMask       uint64

	Owner any // the caller's

	// Done is called once for every Operation that was begun, from any goroutine,
	// with none of the link's locks held; it may be before Send has returned, and
	// is always before the handler hears Closed. Local is the caller's again.
	Done func(*Operation, OpStatus)
}

// Size is how many bytes Local has.
func (op *Operation) Size() uint64 {
	n := uint64(0)
	for _, p := range op.Local {
		n += uint64(len(p))
	}
	return n
}

// Validate tells what is wrong with an operation in itself.
func (op *Operation) Validate() error {
	total := op.Size()
	switch {
	case op.Kind > OpCompareSwap:
		return fmt.Errorf("transport: operation of kind %d: %w", op.Kind, syscall.EINVAL)
	case op.Kind < OpFetchAdd && total > math.MaxUint32:
		return fmt.Errorf("transport: operation on %d bytes: %w", total, syscall.EMSGSIZE)
	case op.Kind < OpFetchAdd:
		return nil
	case op.Addr%8 != 0:
		return fmt.Errorf("transport: atomic of a misaligned address: %w", syscall.EINVAL)
	case len(op.Local) != 1 || total != 8:
		return fmt.Errorf("transport: an atomic takes 8 bytes of local memory: %w", syscall.EINVAL)
	}
	return nil
}
