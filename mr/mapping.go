package mr

import (
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/invariants"
)

// Options say how memory is mapped.
type Options struct {
	// Domain is the protection domain of the region. It must be one of the
	// device's and open.
	Domain *Domain
	// Rights are what the region may be used for.
	Rights Rights
	// Base is the address of the first byte in requests. With RemoteAtomic it
	// must be as far from a multiple of 8 as the memory is.
	Base uint64
	// Peer is the only one that may use the key remotely; the zero address
	// stands for all (the two calls of rds(7): GET_MR_FOR_DEST and GET_MR).
	Peer netip.Addr
	// Once retires the key after the first remote operation that succeeds.
	Once bool
	// NoWait has Map and Register fail at once where a limit is reached that an
	// invalidation may lift, which then begins.
	NoWait bool
	// Released, unless nil, is called once, when the memory is the caller's
	// again: the key is dead, the grace period over, the memory no longer
	// counted. It is called without a lock held, from whatever goroutine ends
	// the grace period, and must not wait for an invalidation itself.
	Released func()
}

// mapping is what a key stands for. The first group of fields does not change
// from publication in a slot until the grace period after it was taken out;
// readers use only that and use.
type mapping struct {
	key    Key
	index  uint32 // index of the base
	rights Rights
	once   bool
	bound  bool // peer alone may use the key
	mem    []byte
	base   uint64
	domain *Domain
	peer   netip.Addr
	serial uint64 // tells this use of the base from those before and after it, never 0

	// use is the operation that has a use-once region, nil while none has.
	use atomic.Pointer[Use]

	known acquaintances // peers that have the key

	// Under the lock of the pool, from here on.
	share      *share
	prev, next *mapping // neighbours in share.live, in a list of dropped mappings, or in the free list
	released   func()
	scribbled  bool // recycled; readers look at it under invariants
}

func (m *mapping) fill(mem []byte, opt *Options) {
	m.rights, m.once = opt.Rights, opt.Once
	m.mem, m.base, m.domain = mem, opt.Base, opt.Domain
	m.peer = opt.Peer.Unmap()
	m.bound = opt.Peer.IsValid()
	m.use.Store(nil)
	m.known.reset()
	m.released = opt.Released
	m.scribbled = false
}

// scribble forgets the caller's memory. Under invariants it leaves what a late
// reader must stumble over.
func (m *mapping) scribble() {
	m.mem, m.domain, m.released, m.share = nil, nil, nil, nil
	if invariants.Enabled {
		m.key, m.rights, m.base, m.scribbled = 0xdeadbeef, 0, 0xdeadbeefdeadbeef, true
	}
}

// list is a queue of mappings through their next fields.
type list struct {
	head, tail *mapping
	n          int
	bytes      int64
}

func (l *list) push(m *mapping) {
	m.next = nil
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
	l.n++
	l.bytes += int64(len(m.mem))
}

func (l *list) take() list {
	t := *l
	*l = list{}
	return t
}
