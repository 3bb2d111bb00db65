//go:build !live

package iwarp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/mr"
)

// A region that is for one peer is used by that one alone: a Write, read or atomic of another
// costs itself and changes nothing, in segments of any size.
func TestRegionsAreUsedByTheirPeerAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, _ := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		const size = 200_000
		local := client.reg(size, mr.LocalWrite)
		fill(local.Bytes(), 3)
		expose := func(peer netip.Addr) ([]byte, mr.Key) {
			t.Helper()
			mem := make([]byte, size)
			key, err := server.pd.owner.Register(mem, mr.Options{Domain: server.pd.domain, Rights: allRights, Peer: peer})
			must(t, err)
			return mem, key
		}
		own := server.est.Remote.Addr()
		_, ours := expose(own)
		theirs, others := expose(own.Next())
		for _, n := range []int{8, 6000, size} {
			for _, op := range []Op{OpWrite, OpRead, OpFetchAdd, OpCompareSwap} {
				w := WorkRequest{ID: 1, Op: op, Flags: Signaled, SGE: []SGE{local.SGE(0, n)}, RemoteKey: others, Add: 1, Swap: 1, SwapMask: 1}
				if op == OpFetchAdd || op == OpCompareSwap {
					w.SGE = []SGE{local.SGE(0, 8)}
				}
				good := w
				good.ID, good.RemoteKey = 2, ours
				client.send(w, good)
				client.want(1, RemoteAccess, op)
				client.want(2, Success, op)
			}
		}
		if client.qp.State() != StateRTS || server.qp.State() != StateRTS {
			t.Error(client.qp.Err(), server.qp.Err())
		}
		must(t, server.pd.owner.FreeInvalidate(within(t), others)) // orders the memory for the race detector
		if !bytes.Equal(theirs, make([]byte, size)) {
			t.Error("another peer's region was written")
		}
	})
}
