package xctl

// The tagged offset of an RDMA Write, and the remote one of a Read Request and an Atomic
// Request, with CapProtection:
//
//	63..40 number of the shared receive queue whose protection domain the key is of
//	39..0  address of the byte in its region
const taggedAddr = 40

// MaxTagged is the first address that a tagged offset has no room for.
const MaxTagged uint64 = 1 << taggedAddr

// TaggedOffset is the tagged offset of an address below MaxTagged.
func TaggedOffset(n SRQN, addr uint64) uint64 { return uint64(n)<<taggedAddr | addr }

// SplitTagged takes a tagged offset apart.
func SplitTagged(offset uint64) (n SRQN, addr uint64) {
	return SRQN(offset >> taggedAddr), offset & (MaxTagged - 1)
}
