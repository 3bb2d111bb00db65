package datagram

// Cookie names a region of a socket's memory to peers, who need it, and nothing
// else, to read and write there (RDMA cookie of rds-rdma(7)). It is the key in
// the low 32 bits, and in the high ones where the region's first byte lies in
// the region's addresses: in a page that is drawn for each region, so that a key
// without its cookie is worth nothing. 0 names no region.
//
// A peer may always use a cookie that is made for it (GetMRForDest), that was sent to it
// (Outgoing.Dest, Outgoing.Map), or that it has used before with success. Of others, sent
// as payload or by another host, it can use 64 a second for the first time (rdsd's
// socket.memory.peer_lookups); beyond that operations end with StatusRemoteError, as they do with
// a cookie that is wrong.
type Cookie uint64

func MakeCookie(key, offset uint32) Cookie { return Cookie(offset)<<32 | Cookie(key) }

// Key is the region's key (R_Key, STag).
func (c Cookie) Key() uint32 { return uint32(c) }

// Offset is the address of the region's first byte.
func (c Cookie) Offset() uint32 { return uint32(c >> 32) }

// MRFlags say how memory is exposed, or how that ends; values as in Linux
// (include/uapi/linux/rds.h, RDS_RDMA_*).
type MRFlags uint32

// Flags of GetMR, GetMRForDest, Map and FreeMR.
const (
	// MRReadWrite is what every region is unless it is MRReadOnly.
	MRReadWrite MRFlags = 0x01
	// MRInvalidate makes FreeMR return only when nothing can touch the memory
	// any more. Given to GetMR, it counts for the region's FreeMR.
	MRInvalidate MRFlags = 0x04
	// MRUseOnce ends the region with the first operation that succeeds; others are refused,
	// also while that one is under way. The key is dead, and nothing touches the memory any
	// more, before the operation's message, if it has one, can be received.
	MRUseOnce MRFlags = 0x08
	// MRReadOnly lets peers read only. Linux has no such regions.
	MRReadOnly MRFlags = 1 << 16
)

// Map is memory that a message exposes and offers to its receiver
// (RDS_CMSG_RDMA_MAP).
type Map struct {
	Memory []byte
	Flags  MRFlags
	// Cookie is set when the message is accepted. The region lives until FreeMR,
	// or as MRUseOnce says. A message that is not accepted leaves none.
	Cookie Cookie
}

// RDMA copies between local memory and a region of the host that a message goes
// to, before the message is delivered (RDS_CMSG_RDMA_ARGS).
type RDMA struct {
	// Cookie is the region, and Offset the distance from its first byte.
	Cookie Cookie
	Offset uint64
	// Local is 1 to 1,024 pieces of memory, none of them empty, of 1 MiB in all.
	// They are the stack's until the message's fate can be received, or until
	// CancelSentTo or Close has returned.
	Local [][]byte
	// Write copies Local into the region; else the region is read into Local.
	Write bool
	// Fence holds the message back until a read has ended, and drops it if the
	// read fails. What is written is in place in any case when the message
	// arrives.
	Fence bool
	// Silent makes the operation happen alone: the peer gets no message, if it
	// has no payload and its Atomic, if any, is silent too.
	Silent bool
}

// AtomicKind says what an Atomic does.
type AtomicKind uint8

// Kinds of Atomic (RDS_CMSG_ATOMIC_FADD, CSWP, and their masked forms).
const (
	// FetchAdd adds Add. Each bit set in AddMask stops the carry out of that bit.
	FetchAdd AtomicKind = iota
	// CompareSwap replaces the word with Swap if it is Compare.
	CompareSwap
	// MaskedCompareSwap replaces the bits of SwapMask with those of Swap if the
	// bits of CompareMask are those of Compare.
	MaskedCompareSwap
)

// Atomic changes 8 bytes of a region of the host that a message goes to, in one
// step, before the message is delivered. The word is in the byte order of the
// region's host. Offset must be such that it is aligned there, else the send
// fails with ErrInvalid.
type Atomic struct {
	Cookie Cookie
	Offset uint64
	Kind   AtomicKind

	Add, AddMask         uint64
	Compare, CompareMask uint64
	Swap, SwapMask       uint64

	// Result receives what the word was before; nil if that does not matter. It
	// is the stack's as RDMA.Local is.
	Result *uint64
	Silent bool // the atomic happens alone, as an operation with RDMA.Silent
}

// Memory is memory for regions and operations that any provider can use.
type Memory struct {
	B []byte

	release func() // nil: the garbage collector does
}

// NewMemory is memory that release gives back; nil: the garbage collector does. It is for
// providers.
func NewMemory(b []byte, release func()) *Memory { return &Memory{B: b, release: release} }

// Release gives the memory back. B must not be used afterwards, nor be in a
// region or an operation that has not ended. Releasing it again does nothing.
func (m *Memory) Release() {
	m.B = nil
	if f := m.release; f != nil {
		m.release = nil
		f()
	}
}
