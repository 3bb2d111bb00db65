package iwarp

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A Write, read or atomic names a key and an address, and no object that would tell whose
// regions it may reach. Where several programs are behind one queue pair the name of a shared
// receive queue is part of the address (xctl.TaggedOffset), as it is of every XRC request, and
// the protection domain is that of the queue.

// named is the protection domain of what the peer asks for at a tagged offset, with a right that
// the request needs, nil if there is none, and the address in it.
func (s *stream) named(offset uint64, needs mr.Rights) (*mr.Domain, uint64) {
	x := s.shared
	switch {
	case x == nil || x.params.Protection == nil:
		return s.q.pd.domain, offset
	case !x.agreed.Caps.Has(xctl.CapProtection):
		return nil, offset // the peer names no queue
	}
	n, addr := xctl.SplitTagged(offset)
	if !n.Valid() {
		return nil, addr
	}
	return x.params.Protection(uint32(n), needs), addr
}

// remoteOffset is the tagged offset that a Write, read or atomic of ours names.
func (s *stream) remoteOffset(w *WorkRequest) uint64 {
	if s == nil || s.shared == nil || !s.shared.agreed.Caps.Has(xctl.CapProtection) {
		return w.RemoteAddr
	}
	return xctl.TaggedOffset(xctl.SRQN(w.Queue), w.RemoteAddr)
}

// Tagged tells whether an operation is on the peer's regions.
func (o Op) Tagged() bool {
	return o == OpWrite || o == OpRead || o == OpFetchAdd || o == OpCompareSwap
}

// MaxNamed is the first address that cannot be named with a queue.
const MaxNamed = xctl.MaxTagged
