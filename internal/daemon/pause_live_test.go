//go:build live

package daemon

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// stalled is a node with two sockets on one connection to a peer that sends whatever
// our congestion map says. The first socket is full, and the connection paused.
type stalled struct {
	*lab
	node        *node.Node
	full, other *socket.Socket
	peer        *rdstest.RawPeer
	link        *rdstest.Raw
	sent        int // messages of stalledSize to full; one to other follows
	logs        *observer.ObservedLogs
}

func newStalled(t *testing.T, cfg config.Node) *stalled {
	t.Helper()
	x := &stalled{lab: newLab(t)}
	core, logs := observer.New(zap.WarnLevel)
	x.logs = logs
	cfg.Logger = zap.New(core)
	cfg.ReceiveBuffer, cfg.ReceiveOverrun = 8<<10, 8<<10
	x.peer = x.Raw()
	x.node = x.lab.node(cfg)
	x.full = x.bind(x.node)
	x.other = x.bind(x.node, rdstest.AddrOf(x.full.LocalAddrPort().Addr(), 5000))
	x.link = x.peer.Dial(x.full.LocalAddrPort().Addr())
	x.listen()
	x.overfill(100)
	rdstest.Eventually(t, "the pause", func() bool { return rdstest.Counter(t, x.node, "recv_paused") == 1 })
	return x
}

// listen reads what the node sends to the peer.
func (x *stalled) listen() {
	link := x.link
	go func() { _ = link.Discard() }()
}

// overfill sends n messages to the full socket and one to the other.
func (x *stalled) overfill(n int) {
	x.Helper()
	var b []byte
	for range n {
		b = append(b, x.link.Data(6000, x.full.LocalAddrPort().Port(), rdstest.Payload(uint64(x.sent), stalledSize))...)
		x.sent++
	}
	x.link.Put(append(b, x.link.Data(6000, 5000, []byte("behind"))...))
}

// takeAll receives every message of the full socket from number on, in order.
func (x *stalled) takeAll(number int) {
	x.Helper()
	for ; number < x.sent; number++ {
		m := rdstest.MustRecv(x, x.full)
		if err := rdstest.Verify(m.Data, uint64(number)); err != nil || len(m.Data) != stalledSize {
			x.Fatalf("message %d: %d bytes, %v", number, len(m.Data), err)
		}
		m.Release()
	}
}

func (x *stalled) dropped(want uint64) {
	x.Helper()
	rdstest.WantCounter(x, x.node, "recv_drop_overrun", want)
}

// After config.Node.ReceiveStall what comes for a socket that takes nothing is dropped, and
// counted, and a warning names the peer and the port; others on the connection go on,
// at once from then on. Once the socket has room it is as any other again.
func TestStallHasALimit(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	begin := time.Now()
	x := newStalled(t, config.Node{ReceiveStall: limit})
	rdstest.Expect(t, x.other, "behind")
	if d := time.Since(begin); d < limit {
		t.Errorf("the connection went on after %v", d)
	}
	kept := int(halfOf(x.full).Queue.Count.Load())
	x.dropped(uint64(x.sent - kept))
	warned := x.logs.FilterMessageSnippet("takes nothing").All()
	if len(warned) != 1 || fmt.Sprint(warned[0].ContextMap()["port"]) != "4000" || warned[0].ContextMap()["peer"] != x.peer.Addr.String() {
		t.Errorf("warnings %v", warned)
	}
	x.overfill(10)
	rdstest.Expect(t, x.other, "behind")
	x.dropped(uint64(x.sent - kept))
	rdstest.WantCounter(t, x.node, "recv_paused", 1)
	lost := x.sent - kept
	rdstest.Drop(t, x.full, kept)
	from := x.sent
	x.overfill(100)
	rdstest.Eventually(t, "another pause", func() bool { return rdstest.Counter(t, x.node, "recv_paused") == 2 })
	x.takeAll(from)
	rdstest.Expect(t, x.other, "behind")
	x.dropped(uint64(lost))
}

// A socket that closes ends the pause at once: its messages are dropped as those to any
// port that nobody has.
func TestClosedSocketEndsThePause(t *testing.T) {
	t.Parallel()
	x := newStalled(t, config.Node{})
	rdstest.Must(t, x.full.Close())
	rdstest.Expect(t, x.other, "behind")
	x.dropped(0)
	var dead, none uint64
	rdstest.Eventually(t, "all to be counted, which follows the burst that they came in", func() bool {
		dead, none = rdstest.Counter(t, x.node, "recv_drop_dead_sock"), rdstest.Counter(t, x.node, "recv_drop_no_sock")
		return dead+none >= uint64(x.sent)
	})
	if dead+none != uint64(x.sent) || dead == 0 || none == 0 {
		t.Errorf("%d dropped with their socket, %d for want of one, of %d", dead, none, x.sent)
	}
}

// A larger buffer ends the pause as taking does.
func TestLargerBufferEndsThePause(t *testing.T) {
	t.Parallel()
	x := newStalled(t, config.Node{})
	rdstest.Must(t, x.full.SetReadBuffer(1<<20))
	rdstest.Expect(t, x.other, "behind")
	x.takeAll(0)
	x.dropped(0)
}

// What a connection has brought that ends while it is paused is received, all of it and
// before what the next connections bring.
func TestPausedPathThatEndsIsReadOut(t *testing.T) {
	t.Parallel()
	x := newStalled(t, config.Node{})
	for range 3 {
		rdstest.Must(t, x.link.Close())
		next := x.peer.Dial(x.full.LocalAddrPort().Addr())
		next.Seq = x.link.Seq
		x.link = next
		x.listen()
		x.overfill(10)
	}
	x.takeAll(0)
	for range 4 {
		rdstest.Expect(t, x.other, "behind")
	}
	x.dropped(0)
}

// A message that is larger than the bound goes into an empty queue.
func TestMessageLargerThanTheBound(t *testing.T) {
	t.Parallel()
	x := newStalled(t, config.Node{})
	big := rdstest.Payload(7, 100_000)
	x.link.Put(x.link.Data(6000, x.full.LocalAddrPort().Port(), big))
	x.takeAll(0)
	m := rdstest.MustRecv(t, x.full)
	if err := rdstest.Verify(m.Data, 7); err != nil || len(m.Data) != len(big) {
		t.Errorf("%d bytes, %v", len(m.Data), err)
	}
	m.Release()
	x.dropped(0)
}

// Close of a node does not wait for paused connections, whose ends may have been noticed
// or not.
func TestCloseWhilePaused(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		x := newStalled(t, config.Node{Linger: -1})
		if ended {
			_ = x.link.Close()
		}
		begin := time.Now()
		rdstest.NoError(t, x.node.Close())
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("Close took %v", d)
		}
	}
}

// An attached application that does not take its messages, as one that is stopped, is a
// socket like any other; its end ends the pause.
func TestApplicationsPauseToo(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		l := newLab(t)
		peer := l.Raw()
		n := l.node(config.Node{ReceiveBuffer: 8 << 10, ReceiveOverrun: 8 << 10})
		_, path := serving(t, n, config.Service{ReceiveArena: 1 << 20, ReceiveBacklog: 1 << 20})
		c := dialed(t, path)
		addr := rdstest.NewAddr()
		for !peer.Addr.Less(addr) {
			addr = rdstest.NewAddr()
		}
		s := bound(t, c, rdstest.AddrOf(addr, 4000))
		other := l.bind(n, rdstest.AddrOf(addr, 5000))
		r := peer.Dial(addr)
		go func() { _ = r.Discard() }()
		const count, size = 12_000, 1000 // more than the arena, its backlog, and what is granted on XRC
		written := make(chan error, 1)
		go func() {
			var b []byte
			for i := range count {
				b = append(b, r.Data(6000, 4000, rdstest.Payload(uint64(i), size))...)
			}
			_, err := r.Conn.Write(append(b, r.Data(6000, 5000, []byte("behind"))...))
			written <- err
		}()
		rdstest.Eventually(t, "the pause", func() bool { return rdstest.Counter(t, n, "recv_paused") > 0 })
		if dies {
			rdstest.NoError(t, c.Close())
		} else {
			rdstest.ExpectNumbers(t, s, count)
		}
		rdstest.Expect(t, other, "behind")
		rdstest.NoError(t, <-written)
		rdstest.WantCounter(t, n, "recv_drop_overrun", 0)
	}
}
