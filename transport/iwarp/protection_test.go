//go:build !live

package iwarp

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/rds-go/rds/mr"
)

// inside makes a protection domain inside base, with a region of n bytes at address at.
func inside(t testing.TB, base *PD, n int, at uint64) (*PD, *MR) {
	t.Helper()
	pd, err := base.Share()
	must(t, err)
	m, err := pd.RegMR(make([]byte, n), allRights, at)
	must(t, err)
	return pd, m
}

// The queue that a Write, read or atomic names decides whose regions it reaches. A key with
// the queue of another program costs the request, not a byte changes, and the connection
// goes on.
func TestXRCREQ47TheNamedQueueDecidesWhatIsReached(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		if m.cp.Markers || m.sp.Markers || m.cp.PeerToPeer {
			continue
		}
		inBubble(t, name, func(t *testing.T) {
			const x, y, none = 5, 6, 7
			client, server := newEnd(t, openDevice(t, m.cfg), QPConfig{}), newEnd(t, openDevice(t, m.cfg), QPConfig{})
			local := client.reg(70_000, mr.LocalWrite)
			fill(local.Bytes(), 7)
			outer := server.reg(70_000, allRights)
			const base = MaxNamed - 1<<20
			ofX, mx := inside(t, server.pd, 70_000, base)
			ofY, my := inside(t, server.pd, 70_000, base)
			reached := func(pd *PD) *MR {
				m, err := pd.RegMR(make([]byte, 70_000), allRights, base)
				must(t, err)
				return m
			}
			rx, ry := reached(ofX), reached(ofY)
			domains := map[uint32]*mr.Domain{x: ofX.Domain(), y: ofY.Domain()}
			m.sp.IRD = 0
			m.cp.Shared = &SharedParams{Send: true, Require: true, Protection: func(uint32, mr.Rights) *mr.Domain { return nil }}
			m.sp.Shared = &SharedParams{Errors: -1, Queues: &queueMap{}, Protection: func(n uint32, _ mr.Rights) *mr.Domain { return domains[n] }}
			connectEnds(t, client, server, m.cp, m.sp)
			ask := func(op Op, queue uint32, m *MR, want Status) {
				t.Helper()
				w := WorkRequest{ID: 1, Op: op, Flags: Signaled, Queue: queue, RemoteKey: m.Key(), RemoteAddr: m.Base(), SGE: []SGE{local.SGE(0, 70_000)}}
				if op == OpFetchAdd || op == OpCompareSwap {
					w.SGE = []SGE{local.SGE(8, 8)}
				}
				client.send(w)
				client.want(1, want, op)
			}
			for _, op := range []Op{OpWrite, OpRead, OpFetchAdd, OpCompareSwap} {
				ask(op, y, mx, RemoteAccess)
				ask(op, x, my, RemoteAccess)
				ask(op, none, mx, RemoteAccess)
				ask(op, 0, mx, RemoteAccess)
				ask(op, x, outer, RemoteAccess)
			}
			for n := uint32(1); n < 300; n++ {
				if n != x {
					ask(OpWrite, n, mx, RemoteAccess)
				}
			}
			for _, op := range []Op{OpWrite, OpRead, OpFetchAdd, OpCompareSwap} {
				ask(op, x, rx, Success)
				ask(op, y, ry, Success)
			}
			for _, m := range []*MR{mx, my, outer} {
				must(t, m.Dereg(within(t))) // orders the memory for the race detector
				if !bytes.Equal(m.Bytes(), make([]byte, 70_000)) {
					t.Error("a request that was refused has changed memory")
				}
			}
			client.send(WorkRequest{ID: 2, Op: OpWrite, Flags: Signaled, Queue: none, RemoteKey: 0x4711})
			client.want(2, Success, OpWrite) // of an empty Write the key means nothing
			if client.qp.State() != StateRTS || server.qp.State() != StateRTS {
				t.Error(client.qp.Err(), server.qp.Err())
			}
			_, err := client.qp.PostSend(WorkRequest{Op: OpWrite, Queue: x, RemoteAddr: MaxNamed - 9, SGE: []SGE{local.SGE(0, 10)}})
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("an address of more than 40 bits: %v", err)
			}
		})
	}
}

// A peer without the capability names no queue, and reaches nothing.
func TestPeersThatNameNoQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		params := SharedParams{Queues: &queueMap{}, Protection: func(uint32, mr.Rights) *mr.Domain { panic("asked for a queue that was not named") }}
		client, server := newEnd(t, openDevice(t, Config{}), QPConfig{}), newEnd(t, openDevice(t, Config{}), QPConfig{})
		all, _ := inside(t, server.pd, 8, 0)
		_, inner := inside(t, all, 8, 0)
		_, outer := inside(t, server.pd, 8, 0)
		connectEnds(t, client, server, ConnParams{Shared: &SharedParams{Send: true, Require: true}}, ConnParams{Shared: &params})
		for _, m := range []*MR{inner, outer} {
			client.send(WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, Queue: 9, RemoteKey: m.Key(), Inline: []byte("x")})
			client.want(1, RemoteAccess, OpWrite)
		}
	})
}
