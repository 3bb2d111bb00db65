//go:build live

package daemon

import (
	"fmt"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// forgiven has a socket try an operation until its node does not hold it back any more for
// those that were refused before, and tells whether the operation has succeeded.
func forgiven(t *testing.T, s, to *socket.Socket, token uint64, o datagram.Outgoing) bool {
	t.Helper()
	for {
		rdstest.Operate(t, s, to, token, o)
		m := rdstest.MustRecv(t, s)
		m.Release()
		if m.Status != datagram.StatusAgain {
			return m.Status == datagram.StatusSuccess
		}
	}
}

// uses are all kinds of operations on a region of 24 bytes: what is right, and what fails its
// checks at the peer.
func uses(c datagram.Cookie, local []byte) map[string][2]datagram.Outgoing {
	all := make(map[string][2]datagram.Outgoing)
	for _, write := range []bool{false, true} {
		for _, pieces := range []int{1, 2, 6} {
			var list [][]byte
			for range pieces {
				list = append(list, local[:4:4])
			}
			name := fmt.Sprintf("write %v of %d pieces", write, pieces)
			good := datagram.RDMA{Cookie: c, Local: list, Write: write, Fence: true}
			bad := good
			bad.Offset = 25 - uint64(4*pieces)
			all[name] = [2]datagram.Outgoing{{RDMA: &good}, {RDMA: &bad}}
		}
	}
	good := datagram.Atomic{Cookie: c, Kind: datagram.FetchAdd, Add: 1}
	bad := good
	bad.Offset = 24
	all["add"] = [2]datagram.Outgoing{{Atomic: &good}, {Atomic: &bad}}
	good.Kind, bad.Kind = datagram.CompareSwap, datagram.CompareSwap
	all["compare and swap"] = [2]datagram.Outgoing{{Atomic: &good}, {Atomic: &bad}}
	return all
}

// TestMRREQ31UseOnceIsUsedOnce: of every kind of operation on a use-once region, with a message
// or silent, one that fails its checks leaves the region, the first that succeeds ends it, and
// all that follow are refused, between nodes and through rdsd.
func TestMRREQ31UseOnceIsUsedOnce(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		mem, local := lent(t, b, 24), lent(t, a, 4)
		for name := range uses(0, local) {
			for _, silent := range []bool{false, true} {
				c := rdstest.MustGetMR(t, b, mem, datagram.MRUseOnce)
				ops := uses(c, local)[name]
				good, bad := ops[0], ops[1]
				for i, o := range []*datagram.Outgoing{&good, &bad} {
					if o.RDMA != nil {
						o.RDMA.Silent = silent
					} else {
						o.Atomic.Silent = silent
					}
					if !silent {
						o.Data = []byte{byte(i)}
					}
				}
				what := fmt.Sprintf("%s, silent %v", name, silent)
				if forgiven(t, a, b, 1, bad) {
					t.Errorf("%s: beyond the region", what)
				}
				if !forgiven(t, a, b, 2, good) {
					t.Errorf("%s: the first use was refused", what)
				}
				for token := range uint64(2) {
					if forgiven(t, a, b, 3+token, good) {
						t.Errorf("%s: a second use", what)
					}
				}
				rdstest.WantErr(t, "FreeMR", b.FreeMR(c, 0), datagram.ErrInvalid)
				for !silent { // what of the messages came
					m, err := b.TryRecv()
					if err != nil {
						break
					}
					m.Release()
				}
			}
		}
	})
}

// TestMRREQ32OneOfTwoApplicationsWins: applications of two hosts race for silent uses of
// regions of an application of a third host.
func TestMRREQ32OneOfTwoApplicationsWins(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, nd func() *node.Node) {
		paths := make(map[*node.Node]string)
		application := func() *socket.Socket {
			n := nd()
			if paths[n] == "" {
				_, paths[n] = serving(t, n, config.Service{})
			}
			return bound(t, dialed(t, paths[n]), rdstest.AddrOf(rdstest.NewAddr(), 4000))
		}
		target, users := application(), [2]*socket.Socket{application(), application()}
		mem := lent(t, target, 8)
		var locals [2][]byte
		for k, u := range users {
			locals[k] = lent(t, u, 1)
			locals[k][0] = byte(k + 1)
			c := rdstest.MustGetMR(t, target, mem, datagram.MRUseOnce)
			forgiven(t, u, target, 0, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{locals[k]}, Write: true, Silent: true}})
		}
		for i := range uint64(50) {
			c := rdstest.MustGetMR(t, target, mem, datagram.MRUseOnce)
			var won [2]bool
			var wg sync.WaitGroup
			for k, u := range users {
				wg.Go(func() {
					o := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{locals[k]}, Write: true, Silent: true}}
					won[k] = forgiven(t, u, target, i, o)
				})
			}
			wg.Wait()
			if won[0] == won[1] {
				t.Fatalf("use %d: %v", i, won)
			}
			if !won[mem[0]-1] {
				t.Fatalf("use %d: host %d has written, and %v", i, mem[0]-1, won)
			}
		}
	})
}
