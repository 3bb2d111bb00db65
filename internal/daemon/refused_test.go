//go:build live

package daemon

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A message for a port that nobody is bound to is refused between nodes of ours on XRC, on each
// path, and on one address, and ends with Success over TCP, as in Linux. Senders that ask for
// failures alone hear of it, and of nothing else. Package conformance has the other ways.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pair func(*lab) (a, b *socket.Socket)
		want datagram.Status
	}{
		"8 paths": {func(l *lab) (*socket.Socket, *socket.Socket) { return l.pair(config.Node{Paths: 8}) }, datagram.StatusRefused},
		"tcp":     {func(l *lab) (*socket.Socket, *socket.Socket) { return l.pair(config.Node{Wire: config.WireTCP}) }, datagram.StatusSuccess},
		"one address": {func(l *lab) (*socket.Socket, *socket.Socket) {
			n := l.node(config.Node{})
			a := l.bind(n)
			return a, l.bind(n, rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
		}, datagram.StatusRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := c.pair(newLab(t))
			nobody := rdstest.AddrOf(b.LocalAddrPort().Addr(), 9)
			for i, size := range []int{0, 10, 100_000} {
				o := datagram.Outgoing{To: nobody, Data: make([]byte, size), Notify: true, Token: uint64(i)}
				rdstest.Must(t, a.SendMessage(rdstest.Background(t), &o))
				rdstest.WantStatus(t, a, uint64(i), c.want)
			}
			rdstest.Must(t, a.SetRecvErr(true))
			rdstest.MustSend(t, a, nobody, []byte("failure"))
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("success"))
			rdstest.Expect(t, b, "success")
			if c.want != datagram.StatusSuccess {
				rdstest.WantStatus(t, a, 0, c.want)
			}
			rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("nothing else"))
			rdstest.Expect(t, a, "nothing else")
			_ = b.Close()
			o := datagram.Outgoing{To: b.LocalAddrPort(), Notify: true, Token: 7} // bound a moment ago
			rdstest.Must(t, a.SendMessage(rdstest.Background(t), &o))
			rdstest.WantStatus(t, a, 7, c.want)
		})
	}
}

// A burst of 1,000s that are refused, one by one among others or in a row, drops none of
// the others, and both sides count.
func TestRefusedInABurst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.pair(config.Node{SendBuffer: 64 << 20, ReceiveBuffer: 64 << 20})
	const n = 6000
	out := make([]datagram.Outgoing, n)
	refused := uint64(0)
	for i := range out {
		out[i] = datagram.Outgoing{To: b.LocalAddrPort(), Data: make([]byte, 10), Notify: true, Token: uint64(i)}
		if i%2 == 0 || i > n/2 && i < n*3/4 {
			out[i].To = rdstest.AddrOf(b.LocalAddrPort().Addr(), 9)
			refused++
		}
	}
	if k, err := a.SendBatch(rdstest.Background(t), out); k != n || err != nil {
		t.Fatal(k, err)
	}
	for i := range out {
		want := datagram.StatusSuccess
		if out[i].To.Port() == 9 {
			want = datagram.StatusRefused
		}
		rdstest.WantStatus(t, a, uint64(i), want)
	}
	rdstest.Drop(t, b, n-int(refused))
	if s, r := rdstest.Counter(t, nodeOf(a), "send_refused"), rdstest.Counter(t, nodeOf(b), "recv_refused"); s != refused || r != refused {
		t.Errorf("%d were refused, sent and refused: %d, received and refused: %d", refused, s, r)
	}
}

// Links are cut all the time, at either end, while messages for ports of nobody and for a
// socket are sent: none of the former ends with Success, and all of the latter come once.
func TestRefusedIsNeverSuccess(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		l := newLab(t)
		a, b := l.pair(config.Node{Paths: paths, SendBuffer: 64 << 10, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond})
		nobody := rdstest.AddrOf(b.LocalAddrPort().Addr(), 9)
		n := 15_000
		if invariants.Enabled {
			n = 2000
		}
		ctx, cancel := context.WithCancel(rdstest.Background(t))
		var wg sync.WaitGroup
		progress := make(chan struct{}, 1)
		cut := func() {
			select {
			case progress <- struct{}{}:
			default:
			}
		}
		wg.Go(func() { cutSome(ctx, rand.New(rand.NewPCG(uint64(paths), 3)), progress, nodeOf(a), nodeOf(b)) })
		wg.Go(func() {
			for i := range n {
				to := nobody
				if i%3 == 0 {
					to = b.LocalAddrPort()
				}
				o := datagram.Outgoing{To: to, Data: make([]byte, i%700), Notify: true, Token: uint64(i)}
				if err := a.SendMessage(ctx, &o); err != nil {
					t.Errorf("message %d: %v", i, err)
					return
				}
			}
		})
		wg.Go(func() {
			for range (n + 2) / 3 {
				m, err := b.Recv(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				m.Release()
			}
		})
		ends := map[datagram.Status]int{}
		for i := range n {
			if i%100 == 50 {
				cut()
			}
			if i%(n/8) == 0 {
				rdstest.Eventually(t, "lost links", func() bool {
					cut()
					return rdstest.Counter(t, nodeOf(a), "conn_reset") >= uint64(i/(n/8))
				})
			}
			m := rdstest.MustRecv(t, a)
			ends[m.Status]++
			if refused := m.Token%3 != 0; refused != (m.Status == datagram.StatusRefused) {
				t.Errorf("message %d of %d paths ends with %v", m.Token, paths, m.Status)
			}
		}
		cancel()
		wg.Wait()
		t.Logf("%d paths, %d links lost: %v", paths, rdstest.Counter(t, nodeOf(a), "conn_reset"), ends)
		rdstest.WantNothing(t, b)
	}
}

// cutSome cuts links of the one node or the other, soon after each token of progress, so that
// the links get on however slow the machine is.
func cutSome(ctx context.Context, rng *rand.Rand, progress <-chan struct{}, nodes ...*node.Node) {
	for {
		select {
		case <-progress:
		case <-ctx.Done():
			return
		}
		wait, stop := context.WithTimeout(ctx, time.Duration(rng.IntN(1000))*time.Microsecond)
		<-wait.Done()
		stop()
		rdstest.CutLinks(nodes[rng.IntN(len(nodes))])
	}
}
