//go:build live

package daemon

import (
	"encoding/binary"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A batch of messages with operations, offers and nothing of the kind keeps its
// order, and each message comes behind what was written before it.
func TestProvidersBatchesOfOperations(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *socket.Socket) {
		const each, words = 200, 8
		mem, local := lent(t, b, each*words), lent(t, a, each*words)
		c, mine := rdstest.MustGetMR(t, b, mem, 0), rdstest.MustGetMR(t, a, lent(t, a, 8), 0)
		ctx := rdstest.Background(t)
		for round := range uint64(3) {
			out := make([]datagram.Outgoing, each)
			var want []uint64
			for i := range uint64(each) {
				o := &out[i]
				o.To = b.LocalAddrPort()
				n := round*each + i
				place := local[i*words:][:words]
				binary.BigEndian.PutUint64(place, n)
				rdma := &datagram.RDMA{Cookie: c, Offset: i * words, Local: [][]byte{place}, Write: true}
				switch i % 4 {
				case 0:
					o.RDMA, rdma.Silent = rdma, true
					continue
				case 1:
					o.RDMA = rdma
				case 2:
					o.HasDest, o.Dest = true, mine
				}
				o.Data = binary.BigEndian.AppendUint64(nil, n)
				want = append(want, n)
			}
			out[each-1].Notify, out[each-1].Token = true, round
			if n, err := a.SendBatch(ctx, out); n != each || err != nil {
				t.Fatal(n, err)
			}
			for _, n := range want {
				m := rdstest.MustRecv(t, b)
				if got := binary.BigEndian.Uint64(m.Data); got != n || m.HasDest != (n%4 == 2) || m.HasDest && m.Dest != mine {
					t.Fatalf("message %d, offer %v, where %d was due", got, m.HasDest, n)
				}
				for i := n - n%4; i <= n && i-n%4 <= 1; i++ { // what was written in front of it
					if at := mem[i%each*words:]; i%4 < 2 && binary.BigEndian.Uint64(at) != i {
						t.Fatalf("message %d is here, and write %d is not", n, i)
					}
				}
				m.Release()
			}
			rdstest.WantStatus(t, a, round, datagram.StatusSuccess)
		}
	})
}

// An application is told late of the ends of writes that it did not ask for, but
// told: with any number of them, and where nothing else is to be told.
func TestEndsOfWritesAreHushed(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *node.Node) {
		svc, path := serving(t, node(), config.Service{})
		a, b := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000)), l.bind(node())
		mem, local := lent(t, b, 8), lent(t, a, 8)
		c := rdstest.MustGetMR(t, b, mem, 0)
		const batches, each = 100, 50
		out := make([]datagram.Outgoing, each)
		for i := range out {
			out[i] = datagram.Outgoing{To: b.LocalAddrPort(), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{local}, Write: true, Silent: true}}
		}
		ctx := rdstest.Background(t)
		for range batches {
			if n, err := a.SendBatch(ctx, out); n != each || err != nil {
				t.Fatal(n, err)
			}
		}
		x := lastSession(svc)
		pending := func() int { // writes whose ends the application has not taken, in the order in which they go on
			x.mu.Lock()
			submitted, _ := x.sq.Refresh()
			x.mu.Unlock()
			begun := int(x.operations.Load())
			x.out.mu.Lock()
			defer x.out.mu.Unlock()
			free, _ := x.out.ring.Free(ringEntries)
			return submitted + begun + ringEntries - free
		}
		rdstest.Eventually(t, "ends of all but the last writes", func() bool { return pending() < quietEntries })
		rdstest.Eventually(t, "all ends in the daemon", func() bool { return x.operations.Load() == 0 })
		rdstest.Operate(t, a, b, 7, datagram.Outgoing{RDMA: out[0].RDMA})
		rdstest.WantStatus(t, a, 7, datagram.StatusSuccess)
		if n := pending(); n > 0 {
			t.Errorf("the ends of %d writes come behind that of a later one", n)
		}
	})
}
