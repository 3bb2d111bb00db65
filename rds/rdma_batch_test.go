package rds

import (
	"encoding/binary"
	"testing"
)

// A batch of messages with operations, offers and nothing of the kind keeps its
// order, and each message comes behind what was written before it.
func TestProvidersBatchesOfOperations(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, a, b *Socket) {
		const each, words = 200, 8
		mem, local := lent(t, b, each*words), lent(t, a, each*words)
		c, mine := mustGetMR(t, b, mem, 0), mustGetMR(t, a, lent(t, a, 8), 0)
		ctx := background(t)
		for round := range uint64(3) {
			out := make([]Outgoing, each)
			var want []uint64
			for i := range uint64(each) {
				o := &out[i]
				o.To = b.LocalAddrPort()
				n := round*each + i
				place := local[i*words:][:words]
				binary.BigEndian.PutUint64(place, n)
				rdma := &RDMA{Cookie: c, Offset: i * words, Local: [][]byte{place}, Write: true}
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
				m := mustRecv(t, b)
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
			wantStatus(t, a, round, StatusSuccess)
		}
	})
}

// An application is told late of the ends of writes that it did not ask for, but
// told: with any number of them, and where nothing else is to be told.
func TestEndsOfWritesAreHushed(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		svc, path := serving(t, node(), ServiceConfig{})
		a, b := bound(t, dialed(t, path), addrOf(newAddr(), 4000)), l.bind(node())
		mem, local := lent(t, b, 8), lent(t, a, 8)
		c := mustGetMR(t, b, mem, 0)
		const batches, each = 100, 50
		out := make([]Outgoing, each)
		for i := range out {
			out[i] = Outgoing{To: b.LocalAddrPort(), RDMA: &RDMA{Cookie: c, Local: [][]byte{local}, Write: true, Silent: true}}
		}
		ctx := background(t)
		for range batches {
			if n, err := a.SendBatch(ctx, out); n != each || err != nil {
				t.Fatal(n, err)
			}
		}
		m := &a.ep.(*clientSocket).half.Load().memory
		pending := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.ops)
		}
		eventually(t, "ends of all but the last writes", func() bool { return pending() < quietEntries })
		x := lastSession(svc)
		eventually(t, "all ends in the daemon", func() bool { return x.operations.Load() == 0 })
		operate(t, a, b, 7, Outgoing{RDMA: out[0].RDMA})
		wantStatus(t, a, 7, StatusSuccess)
		if n := pending(); n > 0 {
			t.Errorf("the ends of %d writes come behind that of a later one", n)
		}
	})
}
