//go:build !live

package node

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// A storm of operations, lost links and messages: each operation is begun at
// most once, each fate comes once, and messages keep their order.
func TestOperationsUnderLinkLosses(t *testing.T) {
	bubbleOn(t, rdmaWays, func(t *testing.T, way rdmaWay) {
		l, node := way.lab(t)
		operateUnderLosses(t, l.bind(node()), l.bind(node()))
	})
}

func operateUnderLosses(t *testing.T, a, b *socket.Socket) {
	mem := make([]byte, 8)
	c := rdstest.MustGetMR(t, b, mem, 0)
	const count = 2000
	stop := make(chan struct{})
	cutter := make(chan struct{})
	go func() {
		defer close(cutter)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				rdstest.CutLinks(nodeOf(a))
			}
		}
	}()
	failed := make(chan error, 1)
	go func() {
		for i := range uint64(count) {
			o := datagram.Outgoing{To: b.LocalAddrPort(), Data: rdstest.Payload(i, 100), Notify: true, Token: i}
			if i%2 == 0 {
				o.Atomic = &datagram.Atomic{Cookie: c, Add: 1}
			}
			if err := a.SendMessage(rdstest.Background(t), &o); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	succeeded := uint64(0)
	fates := make([]int, count)
	delivered := make([]bool, count) // must be: the fate was success
	for range count {
		m := rdstest.MustRecv(t, a)
		fates[m.Token]++
		delivered[m.Token] = m.Status == datagram.StatusSuccess
		switch {
		case m.Status == datagram.StatusSuccess && m.Token%2 == 0:
			succeeded++
		case m.Status != datagram.StatusSuccess && (m.Status != datagram.StatusDropped || m.Token%2 != 0):
			t.Errorf("%v", &m)
		}
	}
	rdstest.Must(t, <-failed)
	close(stop)
	<-cutter
	if slices.ContainsFunc(fates, func(k int) bool { return k != 1 }) {
		t.Error("not one fate for each message")
	}
	for next := uint64(0); ; {
		m, err := b.TryRecv()
		if err != nil {
			break
		}
		number := binary.BigEndian.Uint64(m.Data)
		if err := rdstest.Verify(m.Data, number); err != nil || number < next {
			t.Errorf("message %d where %d is due: %v", number, next, err)
		}
		next = number + 1
		delivered[number] = false
		m.Release()
	}
	if i := slices.Index(delivered, true); i >= 0 {
		t.Errorf("message %d has not arrived", i)
	}
	rdstest.Must(t, b.FreeMR(c, datagram.MRInvalidate))
	begun, word := rdstest.Counter(t, nodeOf(a), "send_rdma"), binary.NativeEndian.Uint64(mem)
	if succeeded > word || word > begun || begun > count/2 {
		t.Errorf("%d operations have succeeded, the counter is %d, %d were begun", succeeded, word, begun)
	}
	t.Logf("%d of %d operations succeeded, %d were done", succeeded, count/2, word)
}

// Operations of all kinds, canceled, lost and done, with room and without:
// each message has one fate, and memory that was taken back is left alone.
func TestOperationsCanceledUnderLosses(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		// Of Go's heap, that the race detector sees it if a lost connection's writes are
		// still placed when the next one's come, by another event loop.
		mem := make([]byte, 1<<16)
		c := rdstest.MustGetMR(t, b, mem, 0)
		random := rand.New(rand.NewPCG(1, 2))
		tokens := make(map[uint64]bool)
		fates := func(n int) {
			for range n {
				m := rdstest.MustRecv(t, a)
				if m.Kind != datagram.KindStatus || !tokens[m.Token] {
					t.Fatalf("%+v", m)
				}
				delete(tokens, m.Token)
			}
		}
		token := uint64(0)
		for round := range 60 {
			local := make([]byte, 1<<12)
			var result uint64
			n := 1 + random.IntN(20)
			for range n {
				token++
				tokens[token] = true
				o := datagram.Outgoing{Data: make([]byte, random.IntN(100))}
				kind := random.IntN(4)
				if kind != 3 {
					offset := uint64(8)
					if kind == 0 {
						offset = 1 << 15 // reads are answered by other goroutines than the event loop
					}
					o.RDMA = &datagram.RDMA{Cookie: c, Offset: offset, Local: [][]byte{local[:100], local[100:]},
						Write: kind == 0, Fence: random.IntN(2) == 0, Silent: random.IntN(2) == 0}
				}
				if kind > 1 {
					o.Atomic = &datagram.Atomic{Cookie: c, Add: 1, Result: &result, Silent: random.IntN(2) == 0}
				}
				rdstest.Operate(t, a, b, token, o)
			}
			switch round % 3 {
			case 0:
				rdstest.CutLinks(nodeOf(a))
			case 1:
				rdstest.Must(t, a.CancelSentTo(b.LocalAddrPort()))
				local[0], result = 1, 1 // the race detector looks on
			}
			fates(n)
			if round%3 == 0 {
				local[0], result = 1, 1
			}
			for err := error(nil); err == nil; { // make room
				var m datagram.Message
				m, err = b.TryRecv()
				m.Release()
			}
		}
		rdstest.WantNothing(t, a)
		rdstest.Eventually(t, "an empty send buffer", func() bool {
			return halfOf(a).Account.Messages() == 0 && halfOf(a).Account.Bytes() == 0 && halfOf(a).ops.n.Load() == 0
		})
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1), Data: []byte("still well")})
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
	})
}
