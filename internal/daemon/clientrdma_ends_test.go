//go:build !live

package daemon

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// opService is a daemon in a network with RDMA, and a client of it.
func opService(t testing.TB, l *lab, n *opNet, scfg config.Service) (*Service, *client.Client) {
	t.Helper()
	svc, path := serving(t, n.node(l, config.Node{}), scfg)
	return svc, dialed(t, path)
}

// Only memory of AllocMemory, of the same daemon and the same process, can be
// used, and that is bounded.
func TestClientMemory(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n := newOpLab(t)
		svc, c := opService(t, l, n, config.Service{MemoryArena: 1 << 20})
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		other := lent(t, bound(t, dialed(t, svc.config().Path), rdstest.AddrOf(rdstest.NewAddr(), 100)), 100)
		b := l.bind(n.node(l, config.Node{}))
		mine := lent(t, a, 100)
		ctx := rdstest.Background(t)
		for name, mem := range map[string][]byte{"the heap's": make([]byte, 100), "another session's": other, "the send arena's": a.AllocMessage(100).Data} {
			_, err := a.GetMR(mem, 0)
			rdstest.WantErr(t, name, err, syscall.EFAULT)
			for _, o := range []datagram.Outgoing{
				{RDMA: &datagram.RDMA{Local: [][]byte{mine, mem}}}, {Map: &datagram.Map{Memory: mem}},
			} {
				o.To = b.LocalAddrPort()
				rdstest.WantErr(t, name, a.SendMessage(ctx, &o), syscall.EFAULT)
			}
		}
		_, err := a.AllocMemory(config.MaxMessage + 1)
		rdstest.WantErr(t, "too much", err, datagram.ErrMessageTooLong)
		_, err = a.AllocMemory(config.MaxMessage)
		rdstest.WantErr(t, "no room", err, datagram.ErrWouldBlock)
		var all []*datagram.Memory
		for {
			m, err := a.AllocMemory(300 << 10)
			if err != nil {
				rdstest.WantErr(t, "used up", err, datagram.ErrWouldBlock)
				break
			}
			all = append(all, m)
			if bytes.IndexByte(m.B, 1) >= 0 || len(m.B) != 300<<10 || cap(m.B) != len(m.B) {
				t.Errorf("%d of %d bytes, or not zero", len(m.B), cap(m.B))
			}
			m.B[0], m.B[len(m.B)-1] = 1, 1
			if len(all) == 1 {
				m.Release()
				m.Release()
				all = nil
				if m, err = a.AllocMemory(300 << 10); err != nil || m.B[0] != 0 || m.B[len(m.B)-1] != 0 {
					t.Fatalf("%v, or not zero", err)
				}
				all = append(all, m)
			}
		}
		if len(all) != 1 { // of 512 KiB each, one of which has a page of other memory in it
			t.Errorf("%d pieces", len(all))
		}
	})
}

// A daemon whose transport has no RDMA, and a peer that has none.
func TestClientWithoutOperations(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, path := serving(t, l.node(config.Node{}), config.Service{})
		s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		one := []byte{1}
		_, err := s.AllocMemory(1)
		rdstest.WantErr(t, "AllocMemory", err, datagram.ErrNotSupported)
		_, err = s.GetMR(one, 0)
		rdstest.WantErr(t, "GetMR", err, datagram.ErrNotSupported)
		rdstest.WantErr(t, "FreeMR", s.FreeMR(1, 0), datagram.ErrInvalid)
		for _, o := range []datagram.Outgoing{{RDMA: &datagram.RDMA{Local: [][]byte{one}}}, {Atomic: &datagram.Atomic{}}, {HasDest: true, Dest: 1}, {Map: &datagram.Map{Memory: one}}} {
			o.To = s.LocalAddrPort()
			rdstest.WantErr(t, "send", s.SendMessage(rdstest.Background(t), &o), datagram.ErrNotSupported)
		}

		l, n := newOpLab(t)
		_, c := opService(t, l, n, config.Service{})
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(n.node(l, config.Node{}))
		o := datagram.Outgoing{To: b.LocalAddrPort(), RDMA: &datagram.RDMA{Local: [][]byte{lent(t, a, 1)}}}
		rdstest.WantErr(t, "not known yet", a.TrySendMessage(&o), datagram.ErrWouldBlock)
		n.Set(func() { n.Plain = true })
		away := datagram.Outgoing{To: rdstest.AddrOf(rdstest.NewAddr(), 100), RDMA: o.RDMA}
		ctx, cancel := context.WithTimeout(context.Background(), 3*reachWait)
		defer cancel()
		rdstest.WantErr(t, "nobody", a.SendMessage(ctx, &away), context.DeadlineExceeded)
		rdstest.Must(t, a.SetWriteDeadline(time.Unix(1, 0)))
		rdstest.WantErr(t, "nobody, after the deadline", a.SendMessage(rdstest.Background(t), &away), os.ErrDeadlineExceeded)
		_ = a.SetWriteDeadline(time.Time{})
		peer := l.bind(n.node(l, config.Node{}))
		away.To = peer.LocalAddrPort()
		rdstest.WantErr(t, "a peer without", a.SendMessage(rdstest.Background(t), &away), datagram.ErrNotSupported)
	})
}

// The end of a daemon drops operations and ends regions. Its memory is of no use
// to the next one.
func TestOperationsEndWithTheDaemon(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n := newOpLab(t)
		svc, path := serving(t, n.node(l, config.Node{}), config.Service{})
		d := &restarted{t, svc.node, svc, path}
		t.Cleanup(func() { _ = d.svc.Close() })
		a := bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(n.node(l, config.Node{}))
		theirs, old := make([]byte, 8), lent(t, a, 8)
		remote, own := rdstest.MustGetMR(t, b, theirs, 0), rdstest.MustGetMR(t, a, old, 0)
		o := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{old}, Write: true, Silent: true}}
		rdstest.Operate(t, a, b, 1, o)
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		n.Set(func() { n.Hold = true })
		var result uint64
		rdstest.Operate(t, a, b, 2, datagram.Outgoing{Atomic: &datagram.Atomic{Cookie: remote, Add: 1, Result: &result, Silent: true}})
		rdstest.Operate(t, a, b, 3, o)
		n.WaitHeld(t, 2)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			d.stop()
		}()
		rdstest.Eventually(t, "the end of the session", func() bool { return len(svc.all()) == 0 })
		n.Release()
		var told, losses uint64
		for range 3 { // in any order: what is told of two things may be read in between
			m, err := a.Recv(rdstest.Background(t))
			switch {
			case errors.Is(err, datagram.ErrDaemonLost):
				losses++
			case err != nil || m.Status != datagram.StatusDropped:
				t.Errorf("%+v, %v", &m, err)
			default:
				told += m.Token
			}
		}
		if told != 5 || losses != 1 {
			t.Errorf("operations %d dropped, %d losses of the daemon", told, losses)
		}
		<-stopped
		_, err := a.GetMR(old, 0)
		if !errors.Is(err, datagram.ErrWouldBlock) && !errors.Is(err, datagram.ErrDaemonLost) {
			t.Errorf("GetMR without a daemon: %v", err)
		}
		d.start()
		rdstest.Eventually(t, "the next daemon", func() bool {
			m, err := a.AllocMemory(1)
			if err == nil {
				m.Release()
			}
			return err == nil
		})
		_, _ = a.TryRecv() // reports the loss, if nobody did
		_, err = a.GetMR(old, 0)
		rdstest.WantErr(t, "GetMR of old memory", err, syscall.EFAULT)
		rdstest.WantErr(t, "FreeMR of an old cookie", a.FreeMR(own, 0), datagram.ErrInvalid)
		o.To, o.HasDest = b.LocalAddrPort(), false
		rdstest.WantErr(t, "an operation with old memory", a.SendMessage(rdstest.Background(t), &o), syscall.EFAULT)
		rdstest.WantErr(t, "an old cookie", a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: own}), datagram.ErrInvalid)
		rdstest.Operate(t, b, a, 4, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: own, Local: [][]byte{theirs}, Write: true, Silent: true}})
		rdstest.WantStatus(t, b, 4, datagram.StatusRemoteError)
		fresh := lent(t, a, 8)
		o.RDMA.Local[0] = fresh
		rdstest.Operate(t, a, b, 5, o)
		rdstest.WantStatus(t, a, 5, datagram.StatusSuccess)
	})
}

// givenUp tells whether no message waits in a node, written or not.
func givenUp(t *testing.T, n *node.Node) bool {
	t.Helper()
	r := rdstest.Report(t, n)
	return len(r.SendQueue)+len(r.Retransmit) == 0
}

// CancelSentTo and Close return when nothing has the memory any more.
func TestClientCancelAndCloseWaitForMemory(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		call func(s *socket.Socket, to netip.AddrPort) error
	}{
		{"cancel", func(s *socket.Socket, to netip.AddrPort) error { return s.CancelSentTo(to) }},
		{"close", func(s *socket.Socket, _ netip.AddrPort) error { return s.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *lab) {
				l, n := newOpLab(t)
				svc, c := opService(t, l, n, config.Service{})
				a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
				a.SetLinger(0)
				other := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
				b := l.bind(n.node(l, config.Node{}))
				remote := rdstest.MustGetMR(t, b, rdstest.Payload(1, 100), 0)
				local := lent(t, a, 100)
				read := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{local}, Silent: true}}
				rdstest.Operate(t, a, b, 1, read)
				rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
				clear(local)
				n.Set(func() { n.Hold = true })
				rdstest.Operate(t, a, b, 2, read)
				n.WaitHeld(t, 1)
				done := make(chan error, 1)
				go func() { done <- end.call(a, b.LocalAddrPort()) }()
				rdstest.Eventually(t, "the message to be given up", func() bool { return givenUp(t, svc.node) })
				rdstest.MustSend(t, other, b.LocalAddrPort(), []byte("goes on"))
				rdstest.Expect(t, b, "goes on")
				select {
				case err := <-done:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				n.Release()
				var dropped *datagram.DroppedError
				if err := <-done; err != nil && !errors.As(err, &dropped) {
					t.Fatal(err)
				}
				rdstest.NoError(t, rdstest.Verify(local, 1)) // in place before the return
				if end.name == "cancel" {
					rdstest.WantStatus(t, a, 2, datagram.StatusCanceled)
				}
			})
		})
	}
}

// An operation is canceled while a link is offered it, and the link has no room: nobody
// has its memory, and its application hears of that and gets its budget back.
func TestClientCancelsWhatALinkDoesNotTake(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n := newOpLab(t)
		svc, c := opService(t, l, n, config.Service{})
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(n.node(l, config.Node{}))
		remote := rdstest.MustGetMR(t, b, rdstest.Payload(1, 100), 0)
		read := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{lent(t, a, 100)}}}
		rdstest.Operate(t, a, b, 1, read)
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)
		x := lastSession(svc)
		n.Set(func() { n.Full = true })
		rdstest.Operate(t, a, b, 2, read)
		refused := func() bool {
			p := x.node.PeerAt(0)
			p.Lock()
			defer p.Unlock()
			return p.Full(0)
		}
		rdstest.Eventually(t, "a link without room", refused)
		done := make(chan error, 1)
		n.Set(func() {
			n.Tried = func() {
				go func() { done <- a.CancelSentTo(b.LocalAddrPort()) }()
				rdstest.Eventually(t, "the cancel", func() bool { return givenUp(t, svc.node) })
			}
		})
		n.Writable()
		rdstest.NoError(t, <-done)
		rdstest.WantStatus(t, a, 2, datagram.StatusCanceled)
		rdstest.Eventually(t, "the memory", func() bool { return x.operations.Load() == 0 && x.queued.Load() == 0 })
	})
}

// A link that does not give memory back makes Close fail, and keeps the pages.
func TestClientCloseWithMemoryThatIsStuck(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n := newOpLab(t)
		svc, c := opService(t, l, n, config.Service{})
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		a.SetLinger(0)
		b := l.bind(n.node(l, config.Node{}))
		remote, local := rdstest.MustGetMR(t, b, rdstest.Payload(1, 100), 0), lent(t, a, 100)
		n.Set(func() { n.Hold = true })
		rdstest.Operate(t, a, b, 1, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{local}, Silent: true}})
		n.WaitHeld(t, 1)
		seg := lastSession(svc).seg
		rdstest.WantErr(t, "Close", a.Close(), datagram.ErrBusy)
		rdstest.NoError(t, c.Close())
		rdstest.Eventually(t, "the end of the session", func() bool { return len(svc.all()) == 0 })
		n.Release()
		rdstest.Eventually(t, "the pages to be given back", func() bool {
			return seg.holds.Load() == 0 && rdstest.Verify(seg.MemoryArea()[:100], 1) != nil
		})
	})
}
