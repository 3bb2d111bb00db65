package rds

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// Of two hosts that use a region for one use at the same time one succeeds and one
// hears that it was refused, and the memory is the winner's.
func TestMRREQ32OneOfTwoHostsUsesARegionOnce(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		target := l.bind(node())
		users := []*Socket{l.bind(node()), l.bind(node())}
		for _, u := range users { // the connections are there
			operate(t, u, target, 0, Outgoing{Data: []byte("hello"), RDMA: rdstest.Write(mustGetMR(t, target, make([]byte, 1), 0), 1)})
			wantStatus(t, u, 0, StatusSuccess)
			expect(t, target, "hello")
		}
		for i := range uint64(50) {
			mem := make([]byte, 1)
			c := mustGetMR(t, target, mem, MRUseOnce)
			status := make([]Status, len(users))
			var wg sync.WaitGroup
			for k, u := range users {
				wg.Go(func() {
					operate(t, u, target, i, Outgoing{RDMA: rdstest.Write(c, byte(k)+1), Data: []byte("mine")})
					m, err := u.Recv(rdstest.Background(t))
					if err != nil || m.Kind != KindStatus || m.Token != i {
						t.Errorf("host %d: %v, %v", k, &m, err)
					}
					status[k] = m.Status
				})
			}
			wg.Wait()
			won := 0
			if status[1] == StatusSuccess {
				won = 1
			}
			if status[won] != StatusSuccess || status[1-won] != StatusRemoteError && status[1-won] != StatusAgain {
				t.Fatalf("use %d: %v and %v", i, status[0], status[1])
			}
			expect(t, target, "mine")
			if mem[0] != byte(won)+1 {
				t.Fatalf("use %d: host %d won, the region holds %d", i, won, mem[0])
			}
		}
	})
}
