//go:build !live

package node

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// The peer's RDS takes a link when it has done with the one before. Operations wait for
// that: what the lost one still carries could be placed behind them.
func TestOperationsWaitUntilALinkIsTaken(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l, n := newOpLab(t)
		a := l.bind(n.node(l, config.Node{}))
		in := &rdstest.Interceptor{Transport: n.Net.Transport(), Links: make(chan transport.Link, 1)}
		b := l.bind(n.node(l, config.Node{Transport: in}))
		c := rdstest.MustGetMR(t, b, make([]byte, 10), 0)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1)})
		link := <-in.Links
		p := nodeOf(a).PeerAt(0)
		rdstest.Eventually(t, "an idle link", func() bool {
			p.Lock()
			defer p.Unlock()
			return p.Core.State(0) == conn.Up && !p.Core.Ready(0)
		})
		if n.Count() != 0 {
			t.Error("an operation was begun")
		}
		in.Accept(link)
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
	})
}

// What a link has begun is lost with it, message and all, and never begun
// again; what it has not is not. Regions know no link.
func TestMRREQ25LostOperationsAreDroppedRegionsStay(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 10)
		c := rdstest.MustGetMR(t, b, mem, 0)
		for round := range byte(10) {
			rdstest.Operate(t, a, b, 1, datagram.Outgoing{Data: []byte("up"), RDMA: rdstest.Write(c, round)})
			rdstest.Expect(t, b, "up")
			rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
			n.Set(func() { n.Hold, n.Begun = true, nil })
			got := make([]byte, 1)
			rdstest.Operate(t, a, b, 2, datagram.Outgoing{Data: []byte("begun"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{got}, Fence: true}})
			rdstest.Operate(t, a, b, 3, datagram.Outgoing{Data: []byte("waits"), RDMA: rdstest.Write(c, 100+round)})
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("plain"))
			n.WaitHeld(t, 1)
			n.Set(func() { n.Hold = false })
			rdstest.CutLinks(nodeOf(a))
			rdstest.WantStatus(t, a, 2, datagram.StatusDropped)
			rdstest.Expect(t, b, "waits")
			rdstest.Expect(t, b, "plain")
			rdstest.WantStatus(t, a, 3, datagram.StatusSuccess)
			if mem[0] != 100+round {
				t.Errorf("round %d: the region holds %d", round, mem[0])
			}
			n.Set(func() {
				if len(n.Begun) != 2 {
					t.Errorf("round %d: %d operations begun", round, len(n.Begun))
				}
			})
		}
	})
}

// TestMRREQ34LinkCutBetweenOperationAndMessage: a link that has begun an operation on a
// use-once region is cut before the message leaves. Neither is a success, the message does not
// come, and the region is there for the next operation.
func TestMRREQ34LinkCutBetweenOperationAndMessage(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 10)
		for round := range byte(10) {
			c := rdstest.MustGetMR(t, b, mem, datagram.MRUseOnce)
			n.Set(func() { n.Hold = true })
			rdstest.Operate(t, a, b, 1, datagram.Outgoing{Data: []byte("lost"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}, Fence: true}})
			n.WaitHeld(t, 1)
			n.Set(func() { n.Hold = false })
			rdstest.CutLinks(nodeOf(a))
			rdstest.WantStatus(t, a, 1, datagram.StatusDropped)
			rdstest.Operate(t, a, b, 2, datagram.Outgoing{Data: []byte("next"), RDMA: rdstest.Write(c, round+1)})
			rdstest.Expect(t, b, "next")
			rdstest.WantStatus(t, a, 2, datagram.StatusSuccess)
			if mem[0] != round+1 {
				t.Errorf("round %d: the region holds %d", round, mem[0])
			}
			rdstest.WantErr(t, "used", b.FreeMR(c, 0), datagram.ErrInvalid)
		}
	})
}

// The fate of an operation that is lost comes when its memory is free, however
// late the link gives that back; meanwhile the connection waits.
func TestDroppedFateFollowsTheMemory(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 10), 0)
		n.Set(func() { n.Hold, n.Late = true, true })
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{Data: []byte("lost"), RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}, Fence: true}})
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("repeated"))
		n.WaitHeld(t, 1)
		rdstest.CutLinks(nodeOf(a))
		ended := func() bool {
			p, err := halfOf(a).peerFor(b.LocalAddrPort().Addr())
			if err != nil {
				return false
			}
			p.Lock()
			defer p.Unlock()
			return p.Core.State(0) == conn.Error
		}
		rdstest.Eventually(t, "the end of the link", ended)
		rdstest.WantNothing(t, a)
		n.Set(func() { n.Hold = false })
		n.Lose(nil)
		rdstest.WantStatus(t, a, 1, datagram.StatusDropped)
		rdstest.Expect(t, b, "repeated")
	})
}

// Without Notify, RecvErr tells of what was lost and of what was refused.
func TestRecvErrOfOperations(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 10), 0)
		rdstest.Must(t, a.SetRecvErr(true))
		to := b.LocalAddrPort()
		for _, r := range []*datagram.RDMA{rdstest.Write(c, 1), rdstest.Write(c+1, 1)} {
			rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: to, RDMA: r}))
		}
		rdstest.WantStatus(t, a, 0, datagram.StatusRemoteError)
		// Behind a refused operation a socket has one operation under way at a time, another one ends with StatusAgain.
		rdstest.Eventually(t, "the end of the Write that is not refused", func() bool { return halfOf(a).ops.n.Load() == 0 })
		n.Set(func() { n.Hold = true })
		rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: to, RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{1}}, Silent: true}}))
		n.WaitHeld(t, 1)
		rdstest.CutLinks(nodeOf(a))
		rdstest.WantStatus(t, a, 0, datagram.StatusDropped)
	})
}

// A message is canceled before its operation is begun, or after; CancelSentTo
// returns when the memory is the caller's.
func TestCancelOperations(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 10)
		c := rdstest.MustGetMR(t, b, mem, 0)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1), Data: []byte("up")})
		rdstest.Expect(t, b, "up")
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)

		n.Set(func() { n.Full = true })
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: rdstest.Write(c, 2), Data: []byte("canceled")})
		rdstest.Must(t, a.CancelSentTo(b.LocalAddrPort()))
		rdstest.WantStatus(t, a, 2, datagram.StatusCanceled)
		n.Open()
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("next"))
		rdstest.Expect(t, b, "next")
		if mem[0] != 1 {
			t.Error("a canceled write was done")
		}

		n.Set(func() { n.Hold = true })
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}, Silent: true}})
		n.WaitHeld(t, 1)
		rdstest.Must(t, a.CancelSentTo(rdstest.AddrOf(b.LocalAddrPort().Addr(), 9))) // not concerned
		canceled := make(chan error, 1)
		go func() { canceled <- a.CancelSentTo(b.LocalAddrPort()) }()
		rdstest.Eventually(t, "a canceled message", func() bool { return halfOf(a).Account.Messages() == 0 })
		rdstest.WantNothing(t, a)
		select {
		case err := <-canceled:
			t.Errorf("returned %v with the memory at the link", err)
		default:
		}
		n.Release()
		rdstest.NoError(t, <-canceled)
		rdstest.WantStatus(t, a, 3, datagram.StatusCanceled)
		rdstest.WantNothing(t, a)
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("last"))
		rdstest.Expect(t, b, "last")
	})
}

// Close returns when nobody touches the socket's memory any more: neither what
// it exposed nor what its own operations use.
func TestCloseTakesMemoryBack(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		mem := make([]byte, 10)
		c := rdstest.MustGetMR(t, b, mem, 0)
		other := l.bind(nodeOf(b), rdstest.AddrOf(b.LocalAddrPort().Addr(), 4001))
		kept := rdstest.MustGetMR(t, other, make([]byte, 10), 0)
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1)})
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)

		n.Set(func() { n.Hold = true })
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}}})
		n.WaitHeld(t, 1)
		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		select {
		case err := <-done:
			t.Fatalf("closed, %v, with the memory at the link", err)
		case <-time.After(20 * time.Millisecond):
		}
		n.Release()
		var dropped *datagram.DroppedError
		if err := <-done; err != nil && !errors.As(err, &dropped) {
			t.Error(err)
		}

		rdstest.NoError(t, b.Close())
		again := l.bind(nodeOf(a), rdstest.AddrOf(a.LocalAddrPort().Addr(), 4002))
		rdstest.Operate(t, again, other, 3, datagram.Outgoing{RDMA: rdstest.Write(c, 3)})
		rdstest.WantStatus(t, again, 3, datagram.StatusRemoteError)
		rdstest.Operate(t, again, other, 4, datagram.Outgoing{RDMA: rdstest.Write(kept, 4)})
		rdstest.WantStatus(t, again, 4, datagram.StatusSuccess)
		dev := nodeOf(b).Regions()
		if st := dev.Stats(); st.Small.Live != 1 {
			t.Errorf("%d regions live", st.Small.Live)
		}
		if err := b.FreeMR(c, 0); !rdstest.Closed(err) {
			t.Errorf("FreeMR: %v", err)
		}
		if _, err := b.GetMR(mem, 0); !rdstest.Closed(err) {
			t.Errorf("GetMR: %v", err)
		}
		if _, err := b.AllocMemory(1); !rdstest.Closed(err) {
			t.Errorf("AllocMemory: %v", err)
		}
	})
}

// Neither waits for a link that does not give memory back for ever.
func TestMemoryThatDoesNotComeBack(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 10), 0)
		n.Set(func() { n.Hold = true })
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{make([]byte, 1)}}})
		n.WaitHeld(t, 1)
		rdstest.WantErr(t, "CancelSentTo", a.CancelSentTo(b.LocalAddrPort()), datagram.ErrBusy, syscall.EBUSY)
		n.Release()
	})
}

// What a node does not know yet it finds out: a send that does not block fails
// and has the host connected, one that blocks waits for that.
func TestFirstOperationConnects(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l, n := newOpLab(t)
		small, large := n.pair(l)
		c := rdstest.MustGetMR(t, large, make([]byte, 10), 0)
		o := datagram.Outgoing{To: large.LocalAddrPort(), RDMA: rdstest.Write(c, 1)}
		rdstest.WantErr(t, "first try", small.TrySendMessage(&o), datagram.ErrWouldBlock)
		rdstest.Eventually(t, "a connection", func() bool { return small.TrySendMessage(&o) == nil })
		rdstest.Expect(t, large, "")

		// From the larger address, and blocking.
		l, n = newOpLab(t)
		small, large = n.pair(l)
		c = rdstest.MustGetMR(t, small, make([]byte, 10), 0)
		rdstest.Operate(t, large, small, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1)})
		rdstest.WantStatus(t, large, 1, datagram.StatusSuccess)

		// Nobody there.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		o.To = rdstest.Nowhere()
		rdstest.WantErr(t, "nobody", small.SendMessage(ctx, &o), context.DeadlineExceeded)
		_ = small.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		rdstest.WantErr(t, "nobody", small.SendMessage(rdstest.Background(t), &o), os.ErrDeadlineExceeded)
		_ = small.SetWriteDeadline(time.Time{})
		waiting := make(chan error, 1)
		go func() { waiting <- small.SendMessage(rdstest.Background(t), &o) }()
		p, err := halfOf(small).peerFor(o.To.Addr())
		rdstest.Must(t, err)
		rdstest.Eventually(t, "a sender that waits", func() bool { return p.waiters.N.Load() > 0 })
		_ = small.Close()
		if err := <-waiting; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed under the sender: %v", err)
		}
	})
}

// A host whose links carry no operations, a node without them, and a provider.
func TestOperationsNotSupported(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l, n := newOpLab(t)
		n.Plain = true
		a, b := n.pair(l)
		plainA, plainB := newMemLab(t).pair(config.Node{Wire: config.WireTCP})
		loopA, loopB := newLoopLab(t).pair(config.Node{})
		one := []byte{1}
		for _, x := range []struct {
			name     string
			from, to *socket.Socket
			exposes  bool
		}{{"a host without", a, b, true}, {"tcp", plainA, plainB, false}, {"loop", loopA, loopB, false}} {
			var offers datagram.Cookie
			c, err := x.from.GetMR(one, 0)
			if x.exposes {
				if err != nil {
					t.Errorf("%s: %v", x.name, err)
				}
				offers = c
			} else {
				rdstest.WantErr(t, x.name+", GetMR", err, datagram.ErrNotSupported, syscall.EOPNOTSUPP)
				_, err = x.from.GetMRForDest(x.to.LocalAddrPort(), one, 0)
				rdstest.WantErr(t, x.name+", GetMRForDest", err, syscall.EOPNOTSUPP)
				_, err = x.from.AllocMemory(1)
				rdstest.WantErr(t, x.name+", AllocMemory", err, syscall.EOPNOTSUPP)
				rdstest.WantErr(t, x.name+", FreeMR", x.from.FreeMR(0, 0), syscall.EINVAL) // as Linux over TCP
				rdstest.WantErr(t, x.name+", Dest", x.from.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: x.to.LocalAddrPort(), HasDest: true, Dest: 1}), syscall.EINVAL)
			}
			for _, o := range []datagram.Outgoing{
				{RDMA: rdstest.Write(1, 1)}, {Atomic: &datagram.Atomic{}}, {Map: &datagram.Map{Memory: one}}, {HasDest: true, Dest: offers},
			} {
				if o.HasDest && !x.exposes {
					continue
				}
				o.To = x.to.LocalAddrPort()
				rdstest.WantErr(t, x.name, x.from.SendMessage(rdstest.Background(t), &o), datagram.ErrNotSupported, syscall.EOPNOTSUPP)
			}
			rdstest.MustSend(t, x.from, x.to.LocalAddrPort(), []byte("still there"))
			rdstest.Expect(t, x.to, "still there")
		}
		if s := halfOf(a).Exposed.Keys; len(s) != 1 {
			t.Errorf("%d regions after sends that failed", len(s))
		}
	})
}

// A peer that comes back without operations gets none of what waited for it,
// and no cookie, which kills a process under Linux; the rest arrives.
func TestPeerComesBackWithoutOperations(t *testing.T) {
	opBubble(t, func(t *testing.T, l *lab, n *opNet, a, b *socket.Socket) {
		c := rdstest.MustGetMR(t, b, make([]byte, 10), 0)
		own := rdstest.MustGetMR(t, a, make([]byte, 10), 0)
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("up"))
		rdstest.Expect(t, b, "up")
		n.Set(func() { n.Full, n.Plain = true, true })
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: rdstest.Write(c, 1), Data: []byte("lost")})
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{HasDest: true, Dest: own, Data: []byte("lost")})
		rdstest.Operate(t, a, b, 3, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{1}}, Silent: true}})
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("plain"))
		rdstest.CutLinks(nodeOf(a))
		for token := range uint64(3) {
			rdstest.WantStatus(t, a, token+1, datagram.StatusOtherError)
		}
		rdstest.Expect(t, b, "plain")
		rdstest.WantErr(t, "then", a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), RDMA: rdstest.Write(c, 1)}), datagram.ErrNotSupported)
		n.Set(func() { n.Full, n.Plain = false, false })
		rdstest.CutLinks(nodeOf(a))
		rdstest.Eventually(t, "operations again", func() bool {
			return a.TrySendMessage(&datagram.Outgoing{To: b.LocalAddrPort(), RDMA: rdstest.Write(c, 1)}) == nil
		})
		rdstest.Expect(t, b, "")
	})
}
