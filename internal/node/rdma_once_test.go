//go:build !live

package node

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
)

// Of two hosts that use a region for one use at the same time one succeeds and one
// hears that it was refused, and the memory is the winner's.
func TestMRREQ32OneOfTwoHostsUsesARegionOnce(t *testing.T) {
	bubbleOn(t, rdmaWays, func(t *testing.T, way rdmaWay) {
		l, node := way.lab(t)
		target := l.bind(node())
		users := []*socket.Socket{l.bind(node()), l.bind(node())}
		for _, u := range users { // the connections are there
			rdstest.Operate(t, u, target, 0, datagram.Outgoing{Data: []byte("hello"), RDMA: rdstest.Write(rdstest.MustGetMR(t, target, make([]byte, 1), 0), 1)})
			rdstest.WantStatus(t, u, 0, datagram.StatusSuccess)
			rdstest.Expect(t, target, "hello")
		}
		for i := range uint64(50) {
			silent := i%2 > 0
			mem := make([]byte, 1)
			c := rdstest.MustGetMR(t, target, mem, datagram.MRUseOnce)
			status := make([]datagram.Status, len(users))
			var wg sync.WaitGroup
			for k, u := range users {
				wg.Go(func() {
					o := datagram.Outgoing{RDMA: rdstest.Write(c, byte(k)+1)}
					if o.RDMA.Silent = silent; !silent {
						o.Data = []byte("mine")
					}
					rdstest.Operate(t, u, target, i, o)
					m, err := u.Recv(rdstest.Background(t))
					if err != nil || m.Kind != datagram.KindStatus || m.Token != i {
						t.Errorf("host %d: %v, %v", k, &m, err)
					}
					status[k] = m.Status
				})
			}
			wg.Wait()
			won := 0
			if status[1] == datagram.StatusSuccess {
				won = 1
			}
			if status[won] != datagram.StatusSuccess || status[1-won] != datagram.StatusRemoteError && status[1-won] != datagram.StatusAgain {
				t.Fatalf("use %d: %v and %v", i, status[0], status[1])
			}
			if silent {
				rdstest.Must(t, target.FreeMR(0, 0)) // for the race detector: the write comes before it
				if halfOf(target).Exposed.has(mr.Key(c.Key())) {
					t.Fatalf("use %d: the socket remembers a region that has ended", i)
				}
			} else {
				rdstest.Expect(t, target, "mine")
			}
			if mem[0] != byte(won)+1 {
				t.Fatalf("use %d: host %d won, the region holds %d", i, won, mem[0])
			}
		}
	})
}
