//go:build !live

package node

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

func TestGetMRErrors(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		one := []byte{1}
		for _, x := range []struct {
			name string
			call func() error
			want error
		}{
			{"nothing", func() error { _, err := a.GetMR(nil, 0); return err }, syscall.EINVAL},
			{"too much", func() error { _, err := a.GetMR(make([]byte, config.MaxMessage+1), 0); return err }, syscall.EMSGSIZE},
			{"an unknown flag", func() error { _, err := a.GetMR(one, 0x20); return err }, syscall.EINVAL},
			{"read-write and read-only", func() error { _, err := a.GetMR(one, datagram.MRReadWrite|datagram.MRReadOnly); return err }, syscall.EINVAL},
			{"no destination", func() error { _, err := a.GetMRForDest(netip.AddrPort{}, one, 0); return err }, syscall.EINVAL},
			{"no key", func() error { return a.FreeMR(1, 0) }, syscall.EINVAL},
			{"unknown flag of FreeMR", func() error { return a.FreeMR(0, 0x20) }, syscall.EINVAL},
			{"no memory", func() error { _, err := a.AllocMemory(0); return err }, syscall.EINVAL},
		} {
			rdstest.WantErr(t, x.name, x.call(), x.want)
		}
		c := rdstest.MustGetMR(t, b, one, 0)
		rdstest.WantErr(t, "another socket's", a.FreeMR(c, 0), datagram.ErrInvalid) // MR-REQ-30
		rdstest.NoError(t, b.FreeMR(c, 0))
		rdstest.WantErr(t, "twice", b.FreeMR(c, datagram.MRInvalidate), datagram.ErrInvalid)
		rdstest.NoError(t, b.FreeMR(0, 0))
		if m, err := a.AllocMemory(9); err != nil || len(m.B) != 9 {
			t.Errorf("%d bytes, %v", len(m.B), err)
		} else {
			m.Release()
			m.Release()
		}
		if c.Key() == 0 || datagram.MakeCookie(c.Key(), c.Offset()) != c {
			t.Errorf("cookie %#x", c)
		}
	})
}

// No connection, and no peer, is needed to expose memory.
func TestMRREQ7GetMRNeedsNoConnection(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	s := l.bind(n.node(l, config.Node{}))
	rdstest.NoError(t, s.FreeMR(rdstest.MustGetMR(t, s, make([]byte, 10), 0), datagram.MRInvalidate))
	if got := rdstest.Report(t, nodeOf(s)).Connections; len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// FreeMR ends access, at once; with MRInvalidate, given to either call, the
// memory is unpinned, that of regions freed before included.
func TestMRREQ11FreeMR(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		dev := nodeOf(b).Regions()
		for _, x := range []struct {
			name      string
			get, free datagram.MRFlags
			flushed   bool
		}{
			{"lazy", 0, 0, false},
			{"invalidate", 0, datagram.MRInvalidate, true},
			{"invalidate, as said before", datagram.MRInvalidate, 0, true},
		} {
			before := dev.Stats().Invalidations
			lazy := rdstest.MustGetMR(t, b, make([]byte, 100), 0)
			c := rdstest.MustGetMR(t, b, make([]byte, 100), x.get)
			rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1)})
			rdstest.Expect(t, b, "")
			rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
			for _, err := range []error{b.FreeMR(lazy, 0), b.FreeMR(c, x.free)} {
				rdstest.NoError(t, err)
			}
			rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: rdstest.Write(c, 2)})
			rdstest.WantStatus(t, a, 2, datagram.StatusRemoteError)
			if pinned := halfOf(b).Exposed.Owner.Pinned(); (pinned == 0) != x.flushed {
				t.Errorf("%s: %d bytes pinned, %d invalidations before, %d now", x.name, pinned, before, dev.Stats().Invalidations)
			}
			rdstest.NoError(t, b.FreeMR(0, datagram.MRInvalidate))
			if pinned := halfOf(b).Exposed.Owner.Pinned(); pinned != 0 {
				t.Errorf("%s: %d bytes pinned after a barrier", x.name, pinned)
			}
		}
	})
}

// A region for one host is no other's.
func TestGetMRForDest(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		other := l.bind(node())
		c, err := b.GetMRForDest(a.LocalAddrPort(), make([]byte, 10), datagram.MRUseOnce)
		rdstest.Must(t, err)
		rdstest.Operate(t, other, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1)})
		rdstest.WantStatus(t, other, 1, datagram.StatusRemoteError)
		// A read that fails has a message behind it, which names the key all the same.
		rdstest.Operate(t, other, b, 2, datagram.Outgoing{Data: []byte("names it"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{0}}}})
		rdstest.Expect(t, b, "names it")
		rdstest.WantStatus(t, other, 2, datagram.StatusRemoteError)
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{Data: []byte("uses it"), RDMA: rdstest.Write(c, 3)})
		rdstest.Expect(t, b, "uses it")
		rdstest.WantStatus(t, a, 3, datagram.StatusSuccess)
	})
}

// The message behind the operation that has used a region for one use ends it,
// before it can be received; an operation that failed does not.
func TestMRREQ33UseOnce(t *testing.T) {
	bubbleOn(t, rdmaWays, func(t *testing.T, way rdmaWay) {
		l, node := way.lab(t)
		for _, flags := range []datagram.MRFlags{datagram.MRUseOnce, datagram.MRUseOnce | datagram.MRInvalidate} {
			a, b := l.bind(node()), l.bind(node())
			mem := make([]byte, 10)
			c := rdstest.MustGetMR(t, b, mem, flags)
			beside := l.bind(nodeOf(b), rdstest.AddrOf(b.LocalAddrPort().Addr(), 4001))

			rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Offset: 5, Local: [][]byte{make([]byte, 6)}, Write: true}})
			rdstest.WantStatus(t, a, 1, datagram.StatusRemoteError)
			rdstest.Operate(t, a, beside, 3, datagram.Outgoing{RDMA: rdstest.Write(rdstest.MustGetMR(t, b, mem, flags), 3), Data: []byte("another socket's")})
			rdstest.Expect(t, beside, "another socket's")
			rdstest.WantStatus(t, a, 3, datagram.StatusSuccess)
			rdstest.Operate(t, a, b, 4, datagram.Outgoing{RDMA: rdstest.Write(c, 4), Data: []byte("once")})
			rdstest.Expect(t, b, "once")
			if mem[0] != 4 {
				t.Errorf("the region holds %d", mem[0])
			}
			if pinned := halfOf(b).Exposed.Owner.Pinned(); flags&datagram.MRInvalidate == 0 && pinned > 20 {
				t.Errorf("%d bytes pinned", pinned)
			}
			rdstest.WantErr(t, "FreeMR", b.FreeMR(c, 0), datagram.ErrInvalid)
			rdstest.WantStatus(t, a, 4, datagram.StatusSuccess)
			rdstest.Operate(t, a, b, 5, datagram.Outgoing{RDMA: rdstest.Write(c, 5)})
			rdstest.WantStatus(t, a, 5, datagram.StatusRemoteError)
			if mem[0] != 4 {
				t.Errorf("the region holds %d after its end", mem[0])
			}
			many := rdstest.MustGetMR(t, b, mem, 0) // a region for more than one use stays
			for i := range byte(3) {
				rdstest.Operate(t, a, b, 6, datagram.Outgoing{RDMA: rdstest.Write(many, i), Data: []byte("many")})
				rdstest.Expect(t, b, "many")
				rdstest.WantStatus(t, a, 6, datagram.StatusSuccess)
			}
		}
	})
}

// A key that was offered arrives with the message, in every way to receive.
func TestDestRoundTrip(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		mem := make([]byte, 100)
		c := rdstest.MustGetMR(t, a, mem[30:], 0)
		send := func(text string, dest bool) {
			t.Helper()
			rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), Data: []byte(text), HasDest: dest, Dest: c * datagram.Cookie(btoi(dest))}))
		}
		want := func(m *datagram.Message, text string, dest bool) {
			t.Helper()
			if string(m.Data) != text || m.HasDest != dest || m.Dest != c*datagram.Cookie(btoi(dest)) {
				t.Errorf("%q, %v %#x; want %q, %v", m.Data, m.HasDest, m.Dest, text, dest)
			}
			m.Release()
		}
		send("plain", false)
		send("dest", true)
		send("dest again", true)
		send("plain again", false)
		m := rdstest.MustRecv(t, b)
		want(&m, "plain", false)
		rdstest.Eventually(t, "all", func() bool {
			waiting := 0
			halfOf(b).Queue.Each(func(*socket.Item) bool { waiting++; return true })
			return waiting == 3
		})
		room := make([]byte, 100)
		for range 2 { // a peek leaves it
			k, m, err := b.ReadMessage(room, datagram.Peek)
			rdstest.Must(t, err)
			m.Data = room[:k]
			want(&m, "dest", true)
		}
		ms := make([]datagram.Message, 8)
		if k, err := b.TryRecvBatch(ms[:2]); k != 2 || err != nil { // as many as there is room for
			t.Fatal(k, err)
		}
		if k, err := b.TryRecvBatch(ms[2:]); k != 1 || err != nil { // and what is left
			t.Fatal(k, err)
		}
		want(&ms[0], "dest", true)
		want(&ms[1], "dest again", true)
		want(&ms[2], "plain again", false)

		// The receiver uses what it was offered.
		rdstest.Operate(t, b, a, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{[]byte("answer")}, Write: true}, Data: []byte("done")})
		rdstest.Expect(t, a, "done")
		if string(mem[30:36]) != "answer" {
			t.Errorf("%q", mem[30:36])
		}
		rdstest.Must(t, a.FreeMR(c, 0))
		rdstest.WantErr(t, "a cookie that has ended", a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: c}), datagram.ErrInvalid)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// When a port is free the regions of the socket that had it have ended, also where that
// one lingers: a message to its successor cannot come with a write into memory of both.
func TestRegionsEndBeforeThePortIsFree(t *testing.T) {
	eachWay(t, func(t *testing.T, l *lab, node func() *Node, a, b *socket.Socket) {
		mem := lent(t, b, 8)
		c := rdstest.MustGetMR(t, b, mem, 0)
		if !halfOf(b).Shut() {
			t.Fatal("closed")
		}
		next, err := nodeOf(b).Bind(b.LocalAddrPort())
		rdstest.Must(t, err)
		rdstest.Operate(t, a, next, 1, datagram.Outgoing{Data: []byte("with"), RDMA: rdstest.Write(c, 1)})
		rdstest.WantStatus(t, a, 1, datagram.StatusRemoteError)
		rdstest.Operate(t, a, next, 2, datagram.Outgoing{Data: []byte("without")})
		rdstest.WantStatus(t, a, 2, datagram.StatusSuccess)
		rdstest.Expect(t, next, "without")
		rdstest.NoError(t, halfOf(b).Finish())
		if mem[0] != 0 {
			t.Error("memory was written after its region had ended")
		}
	})
}

// Map exposes memory for one message, and leaves nothing if that is not accepted.
func TestMRREQ36MapIsUndoneWhenTheSendFails(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 10)
		o := datagram.Outgoing{To: b.LocalAddrPort(), Data: []byte("take it"), Map: &datagram.Map{Memory: mem, Flags: datagram.MRUseOnce}}
		rdstest.WantErr(t, "before a connection", a.TrySendMessage(&o), datagram.ErrWouldBlock)
		rdstest.Must(t, a.SendMessage(rdstest.Background(t), &o))
		m := rdstest.MustRecv(t, b)
		if !m.HasDest || m.Dest != o.Map.Cookie || m.Dest == 0 {
			t.Errorf("%#x arrived, %#x was mapped", m.Dest, o.Map.Cookie)
		}
		m.Release()
		rdstest.Operate(t, b, a, 1, datagram.Outgoing{RDMA: rdstest.Write(m.Dest, 7), Data: []byte("taken")})
		rdstest.Expect(t, a, "taken")
		if mem[0] != 7 {
			t.Error("nothing was written")
		}

		rdstest.Must(t, a.SetWriteBuffer(1000))
		n.Set(func() { n.Full = true })
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: rdstest.Write(m.Dest, 7), Data: make([]byte, 1000)}) // fills the send buffer
		failing := datagram.Outgoing{To: b.LocalAddrPort(), Data: []byte("no room"), Map: &datagram.Map{Memory: mem}}
		rdstest.WantErr(t, "no room", a.TrySendMessage(&failing), datagram.ErrWouldBlock)
		if failing.Map.Cookie != 0 {
			t.Error("a cookie from a send that failed")
		}
		if keys := len(halfOf(a).Exposed.Keys); keys != 0 {
			t.Errorf("%d regions left", keys)
		}
		n.Open()
		rdstest.WantStatus(t, a, 2, datagram.StatusRemoteError)
	})
}

// A pool that is used up is EAGAIN, and one socket cannot use it up alone.
func TestMRREQ38ExhaustedPool(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	hog, mem := a, make([]byte, config.MaxMessage)
	count := 0
	for {
		_, err := hog.GetMR(mem, 0)
		if err != nil {
			rdstest.WantErr(t, "exhausted", err, datagram.ErrWouldBlock, syscall.EAGAIN)
			break
		}
		count++
	}
	if count < 1000 {
		t.Errorf("%d regions", count)
	}
	other := l.bind(nodeOf(a), rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
	rdstest.MustGetMR(t, other, mem, 0)
	rdstest.MustGetMR(t, b, mem, 0)
}

// Regions come and go while peers use them, and while their sockets are closed:
// no placement is in memory that was taken back.
func TestRegionsUnderFire(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		addr := b.LocalAddrPort().Addr()
		var mu sync.Mutex
		var live datagram.Cookie
		stop := make(chan struct{})
		var wg sync.WaitGroup
		ctx := rdstest.Background(t)
		wg.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond) // the rate of operations that the peer refuses is bounded
			defer tick.Stop()
			for i := 1; ; i++ {
				if i%10 == 0 {
					<-tick.C
				}
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				c := live
				mu.Unlock()
				err := a.SendMessage(ctx, &datagram.Outgoing{To: b.LocalAddrPort(), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{0xff}}, Write: true, Silent: true}})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range 200 {
			s := l.bind(nodeOf(b), rdstest.AddrOf(addr, uint16(5000+i)))
			mem := make([]byte, 1)
			c := rdstest.MustGetMR(t, s, mem, 0)
			mu.Lock()
			live = c
			mu.Unlock()
			before := n.Count()
			rdstest.Eventually(t, "an operation", func() bool { return n.Count() > before })
			var err error
			if i%2 == 0 {
				err = s.FreeMR(c, datagram.MRInvalidate)
			} else {
				err = s.Close()
			}
			rdstest.Must(t, err)
			mem[0] = 1 // the race detector looks on
			if i%2 == 0 {
				_ = s.Close()
			}
		}
		close(stop)
		wg.Wait()
		if errors.Is(nodeOf(a).Close(), datagram.ErrBusy) {
			t.Error("memory in use at the end")
		}
	})
}

// The wire has 40 bits for an address. An offset beyond them is out of bounds as any other, and
// is not that of a region again when its upper bits are cut off.
func TestOffsetsBeyondTheAddressesOfTheWire(t *testing.T) {
	bubbleOn(t, rdmaWays, func(t *testing.T, way rdmaWay) {
		l, node := way.lab(t)
		b := l.bind(node())
		mem := make([]byte, 64)
		c := rdstest.MustGetMR(t, b, mem, 0)
		n := node()
		for _, bit := range []int{39, 40, 41, 62, 63} {
			a := l.bind(n) // a socket with refusals is held back
			rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Offset: 1 << bit, Local: [][]byte{[]byte("x"), []byte("y")}, Write: true, Silent: true}})
			rdstest.WantStatus(t, a, 1, datagram.StatusRemoteError)
		}
		rdstest.Must(t, b.FreeMR(c, datagram.MRInvalidate))
		if mem[0] != 0 {
			t.Errorf("% x", mem[:8])
		}
	})
}
