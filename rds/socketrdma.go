package rds

import "net/netip"

// AllocMemory returns n zero bytes, aligned for atomic operations, that may be
// exposed and be Local memory of operations.
//
// On a Node any other memory of this process will do as well, as long as it is
// not the stack's own. On a Client no other will: regions and operations of it
// fail with EFAULT. There n is at most 1 MiB, and ErrWouldBlock means that the
// session's memory for this (ServiceConfig.MemoryArena) is used up. When a
// daemon has ended its memory is good for nothing but to be released.
func (s *Socket) AllocMemory(n int) (*Memory, error) { return s.s.AllocMemory(n) }

// GetMR exposes 1 byte to 1 MiB of memory to the operations of all peers
// (RDS_GET_MR). It needs no connection. The memory belongs to them and to the
// caller, with no order but that of messages, until FreeMR with MRInvalidate or
// Close returns; connections that end do not matter.
//
// ErrNotSupported means that this provider carries no operations, ErrWouldBlock
// that as many regions, or as much memory, are exposed as can be.
func (s *Socket) GetMR(mem []byte, flags MRFlags) (Cookie, error) { return s.s.GetMR(mem, flags) }

// GetMRForDest is GetMR for the operations of one host only, that of dest
// (RDS_GET_MR_FOR_DEST; Linux lets in all of them).
func (s *Socket) GetMRForDest(dest netip.AddrPort, mem []byte, flags MRFlags) (Cookie, error) {
	return s.s.GetMRForDest(dest, mem, flags)
}

// GetMRBatch is GetMR for several pieces of memory: mem[i] is exposed as cookies[i], of which
// there must be as many. It returns how many were exposed, and an error if that is not all. On
// a Client it is for programs that expose much: a batch costs little more than one GetMR.
func (s *Socket) GetMRBatch(cookies []Cookie, mem [][]byte, flags MRFlags) (int, error) {
	return s.s.GetMRBatch(cookies, mem, flags)
}

// FreeMR ends a region (RDS_FREE_MR): its key is dead when the call returns, or on a Client
// about a millisecond later.
// Without MRInvalidate, then or at GetMR, an operation that had begun may touch
// the memory for a moment longer. With it the memory of this region and of all
// that were ended before, on this host, is out of use at return; ErrBusy means that this could
// not be had in time. A region that is not this socket's, or has ended, is
// ErrInvalid.
//
// The cookie 0 ends nothing and waits as MRInvalidate does.
func (s *Socket) FreeMR(c Cookie, flags MRFlags) error { return s.s.FreeMR(c, flags) }

// FreeMRBatch is FreeMR for several regions, of which it returns how many have ended; with
// MRInvalidate it waits once, for all.
func (s *Socket) FreeMRBatch(cookies []Cookie, flags MRFlags) (int, error) {
	return s.s.FreeMRBatch(cookies, flags)
}
