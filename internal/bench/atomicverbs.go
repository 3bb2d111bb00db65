package bench

import (
	"encoding/binary"
	"net/netip"

	"github.com/rds-go/rds/transport/iwarp"
)

// verbsAtomics are those of a connection of its own.
type verbsAtomics struct {
	v     *verbs
	reqs  []iwarp.WorkRequest
	comps [1]iwarp.Completion
}

func (c *cell) newVerbsAtomics() (*verbsAtomics, func(), error) {
	v, end, err := c.dialVerbs(c.work.Depth*wordSize, nil)
	if err != nil {
		return nil, nil, err
	}
	a := &verbsAtomics{v: v, reqs: make([]iwarp.WorkRequest, c.work.Depth)}
	for i := range a.reqs {
		a.reqs[i] = iwarp.WorkRequest{
			ID: uint64(i), Op: iwarp.OpFetchAdd, Flags: iwarp.Signaled, Add: 1, RemoteKey: v.remote.key,
			CompareMask: ^uint64(0), SwapMask: ^uint64(0), SGE: []iwarp.SGE{v.region.SGE(i*wordSize, wordSize)},
		}
		if c.work.Op == OpSwap {
			a.reqs[i].Op, a.reqs[i].Add = iwarp.OpCompareSwap, 0
		}
	}
	return a, end, nil
}

func (a *verbsAtomics) post(lane, word int, old uint64) error {
	r := &a.reqs[lane]
	r.RemoteAddr = a.v.remote.addr + uint64(word*wordSize)
	if r.Op == iwarp.OpCompareSwap {
		r.Compare, r.Swap = old, old+1
	}
	_, err := a.v.qp.PostSend(a.reqs[lane : lane+1]...)
	return err
}

func (a *verbsAtomics) next() (int, uint64, error) {
	if _, err := a.v.take(a.v.send, a.comps[:]); err != nil {
		return 0, 0, err
	}
	lane := int(a.comps[0].ID)
	return lane, binary.NativeEndian.Uint64(a.v.mem[lane*wordSize:]), nil
}

// serveVerbsAtomics serves the words on as many connections as there are.
func serveVerbsAtomics(ip netip.Addr, w *Work, o *TCPSettings, fail func(error)) (*service, error) {
	first, s, l, err := listenVerbs(ip, w, o, w.Words*wordSize, fail)
	if err != nil {
		return nil, err
	}
	s.words = [][]byte{first.mem}
	s.run(func() error {
		for v := first; ; {
			if err := v.accept(l); err != nil {
				if gone(err) {
					return nil
				}
				return err
			}
			v = &verbs{w: w, dev: first.dev, ctx: first.ctx, mem: first.mem}
			if err := v.create(); err != nil && first.ctx.Err() == nil {
				return err
			}
		}
	})
	return s, nil
}
