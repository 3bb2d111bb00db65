//go:build live

package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// onlyOf allows the addresses of some sockets.
func onlyOf(socks ...*socket.Socket) config.Admission {
	var a config.Admission
	for _, s := range socks {
		a.Allow = append(a.Allow, netip.PrefixFrom(s.LocalAddrPort().Addr(), 32))
	}
	return a
}

// nobody is an allow-list of one address that no test has.
func nobody() config.Admission { return config.Admission{Allow: rdstest.Prefixes("192.0.2.1/32")} }

func admit(t testing.TB, n *node.Node, a config.Admission) {
	t.Helper()
	rdstest.Must(t, n.SetAdmission(a))
}

// admitting makes a socket of each provider, and returns its node too.
func admitting(t *testing.T, in where, each func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node))) {
	t.Run("node", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			each(t, l, func(cfg config.Node) (*socket.Socket, *node.Node) {
				n := l.node(cfg)
				return l.bind(n), n
			})
		})
	})
	t.Run("rdsd", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			each(t, l, func(cfg config.Node) (*socket.Socket, *node.Node) {
				n, _, path := served(t, l, cfg, config.Service{})
				return bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000)), n
			})
		})
	})
}

// Sending to a peer that is not allowed fails with EACCES: one that was never met, and one
// that was, in every way of sending, and the node's own addresses are always allowed.
func TestSendToAPeerThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, overTCP, func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node)) {
		s, n := bind(config.Node{})
		met, never := l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{}))
		rdstest.MustSend(t, s, met.LocalAddrPort(), []byte("hello"))
		rdstest.Expect(t, met, "hello")
		admit(t, n, nobody())
		mem := make([]byte, 100)
		for _, to := range []*socket.Socket{met, never} {
			at := to.LocalAddrPort()
			cookie := rdstest.MustGetMR(t, to, mem, datagram.MRReadWrite)
			local, err := s.AllocMemory(8)
			rdstest.Must(t, err)
			for what, o := range map[string]datagram.Outgoing{
				"a message": {Data: []byte("x")}, "a large one": {Data: make([]byte, 100_000)},
				"an operation": {RDMA: &datagram.RDMA{Cookie: cookie, Local: [][]byte{local.B[:8]}, Write: true}},
			} {
				o.To = at
				err := s.SendMessage(rdstest.Background(t), &o)
				rdstest.WantErr(t, what, err, datagram.ErrPermission, syscall.EACCES)
				rdstest.WantErr(t, what+", not waiting", s.TrySend(at, []byte("x")), datagram.ErrPermission)
			}
			many := []datagram.Outgoing{{To: at, Data: []byte("1")}, {To: at, Data: []byte("2")}}
			sent, err := s.SendBatch(rdstest.Background(t), many)
			if sent != 0 {
				t.Errorf("%d messages of a batch are sent", sent)
			}
			rdstest.WantErr(t, "a batch", err, datagram.ErrPermission)
			local.Release()
		}
		if rdstest.Counter(t, n, "send_not_allowed") == 0 {
			t.Error("nothing is counted")
		}
		rdstest.MustSend(t, s, s.LocalAddrPort(), []byte("to myself"))
		rdstest.Expect(t, s, "to myself")
		admit(t, n, onlyOf(met, never))
		for _, to := range []*socket.Socket{met, never} {
			rdstest.MustSend(t, s, to.LocalAddrPort(), []byte("again"))
			rdstest.Expect(t, to, "again")
		}
		admit(t, n, config.Admission{})
		if !n.Allows(rdstest.Nowhere().Addr()) {
			t.Error("an empty list is a list")
		}
	})
}

// A change of the list resets the connections that are no longer allowed, and no others,
// and has new ones refused, counted by prefix.
func TestChangeEndsConnections(t *testing.T) {
	t.Parallel()
	for _, wire := range []config.Wire{config.WireTCP, config.WireXRC, config.WireAuto} {
		t.Run("wire "+string(wire), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			before := l.bind(l.node(config.Node{Wire: wire})) // has a smaller address: it dials s
			s := l.bind(l.node(config.Node{Wire: wire}))
			behind := l.bind(l.node(config.Node{Wire: wire})) // s dials it
			friend := l.bind(l.node(config.Node{Wire: wire}))
			n := nodeOf(s)
			for _, p := range []*socket.Socket{before, behind, friend} {
				rdstest.MustSend(t, p, s.LocalAddrPort(), []byte("there"))
				rdstest.Expect(t, s, "there")
				rdstest.MustSend(t, s, p.LocalAddrPort(), []byte("and back"))
				rdstest.Expect(t, p, "and back")
			}
			admit(t, n, onlyOf(friend))
			rdstest.Eventually(t, "the end of connections", func() bool {
				return !slices.ContainsFunc(rdstest.Report(t, n).Connections, func(c info.Connection) bool {
					return c.Connected && c.Remote != friend.LocalAddrPort().Addr()
				})
			})
			rdstest.MustSend(t, before, s.LocalAddrPort(), []byte("kept"))
			rdstest.MustSend(t, behind, s.LocalAddrPort(), []byte("kept"))
			rdstest.Eventually(t, "refusals", func() bool { return rdstest.Counter(t, n, "conn_not_allowed") >= 4 })
			info := rdstest.Report(t, n).Admission
			if info == nil || len(info.Allow) != 1 || info.Rejected < 4 || len(info.Prefixes) == 0 || info.Prefixes[0].Prefix.Bits() != 24 {
				t.Errorf("%+v", info)
			}
			rdstest.MustSend(t, s, friend.LocalAddrPort(), []byte("still"))
			rdstest.Expect(t, friend, "still")
			rdstest.WantNothing(t, s)
			for _, c := range rdstest.Report(t, n).Connections {
				if c.Remote == friend.LocalAddrPort().Addr() && c.Path[0].Resets != 0 {
					t.Error("the connection of a peer that is allowed was ended too")
				}
			}
			admit(t, n, onlyOf(friend, before, behind))
			rdstest.Expect(t, s, "kept") // each peer has kept its message, and is taken again
			rdstest.Expect(t, s, "kept")
		})
	}
}

// What waits for a peer when it stops being allowed ends with a fate that is true: what
// was never written was not delivered.
func TestQueuedMessagesEndWhenThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node)) {
		s, n := bind(config.Node{})
		gone := rdstest.Nowhere()
		for i := range uint64(10) {
			o := datagram.Outgoing{To: gone, Data: make([]byte, 10+i*20_000), Notify: true, Token: i}
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
		}
		admit(t, n, nobody())
		for i := range uint64(10) {
			rdstest.WantStatus(t, s, i, datagram.StatusOtherError)
		}
		if got := rdstest.Counter(t, n, "send_not_allowed"); got < 10 {
			t.Errorf("%d counted", got)
		}
	})
}

// Senders that are blocked hear of it, whatever they wait for.
func TestBlockedSendersHearThatThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node)) {
		for name, prepare := range map[string]func(s *socket.Socket, to *socket.Socket) netip.AddrPort{
			"room": func(s *socket.Socket, _ *socket.Socket) netip.AddrPort {
				rdstest.Must(t, s.SetWriteBuffer(100_000))
				gone := rdstest.Nowhere()
				for s.TrySend(gone, make([]byte, 10_000)) == nil {
				}
				return gone
			},
			"a congested port": func(s, to *socket.Socket) netip.AddrPort {
				rdstest.Must(t, to.SetReadBuffer(1000))
				rdstest.Eventually(t, "congestion", func() bool { return errors.Is(s.TrySend(to.LocalAddrPort(), make([]byte, 500)), datagram.ErrCongested) })
				return to.LocalAddrPort()
			},
		} {
			s, n := bind(config.Node{})
			to := prepare(s, l.bind(l.node(config.Node{})))
			got := make(chan error, 1)
			go func() { got <- s.Send(rdstest.Background(t), to, make([]byte, 10_000)) }()
			rdstest.Eventually(t, "a sender waits for "+name, func() bool {
				return slices.ContainsFunc(rdstest.Report(t, n).Waits, func(w info.Wait) bool { return w.Senders > 0 })
			})
			admit(t, n, nobody())
			select {
			case err := <-got:
				rdstest.WantErr(t, name, err, datagram.ErrPermission)
			case <-time.After(rdstest.Patience):
				t.Fatalf("a sender that waits for %s is not told", name)
			}
		}
	})
}

// A sender that waits for room, which a message for another peer takes, hears that its own
// peer is no longer allowed: no message for that peer ends, which would make room.
func TestSenderBehindOthersHearsThatThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, overTCP, func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node)) {
		slow := l.Raw()
		s, n := bind(config.Node{Wire: config.WireTCP})
		to := l.bind(l.node(config.Node{Wire: config.WireTCP}))
		rdstest.Ping(t, s, to.LocalAddrPort().Addr())
		link := slow.Dial(s.LocalAddrPort().Addr())
		rdstest.Must(t, link.Conn.(*net.TCPConn).SetReadBuffer(4096)) // The message below is never acknowledged.
		link.Put(link.Probe(link.Hs))
		rdstest.Eventually(t, "the link of the slow peer", func() bool {
			return slices.ContainsFunc(rdstest.Report(t, n).Connections, func(c info.Connection) bool { return c.Connected && c.Remote == slow.Addr })
		})
		rdstest.Must(t, s.SetWriteBuffer(config.MaxMessage))
		rdstest.MustSend(t, s, rdstest.AddrOf(slow.Addr, 9), make([]byte, config.MaxMessage))
		got := make(chan error, 1)
		go func() { got <- s.Send(rdstest.Background(t), to.LocalAddrPort(), []byte("x")) }()
		rdstest.Eventually(t, "a sender waits", func() bool {
			return slices.ContainsFunc(rdstest.Report(t, n).Waits, func(w info.Wait) bool { return w.Senders > 0 })
		})
		admit(t, n, config.Admission{Allow: []netip.Prefix{netip.PrefixFrom(slow.Addr, 32)}})
		select {
		case err := <-got:
			rdstest.WantErr(t, "the sender", err, datagram.ErrPermission)
		case <-time.After(rdstest.Patience):
			t.Fatal("the sender is not told")
		}
	})
}

// The list is changed again and again while a peer sends: on XRC, where a message is
// acknowledged when it was taken, each arrives once, in order.
func TestChangesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.bind(l.node(config.Node{Wire: config.WireXRC})), l.bind(l.node(config.Node{Wire: config.WireXRC}))
	n := nodeOf(b)
	const count, turns = 3000, 30
	ctx := rdstest.Background(t)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := uint64(0); i < count && err == nil; i++ {
			err = a.Send(ctx, b.LocalAddrPort(), rdstest.Payload(i, 1000))
		}
		done <- err
	}()
	for i := range uint64(count) {
		if i%(count/turns) == 0 {
			admit(t, n, nobody())
			admit(t, n, onlyOf(a))
		}
		rdstest.ExpectNumber(t, b, i)
	}
	rdstest.Must(t, <-done)
	rdstest.WantNothing(t, b)
}

// Sends, changes and ends at once.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	admitting(t, overTCP, func(t *testing.T, l *lab, bind func(config.Node) (*socket.Socket, *node.Node)) {
		s, n := bind(config.Node{})
		to := l.bind(l.node(config.Node{}))
		ctx, cancel := context.WithCancel(rdstest.Background(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if err := s.Send(ctx, to.LocalAddrPort(), make([]byte, 20_000)); err != nil && !errors.Is(err, datagram.ErrPermission) && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}()
		go func() {
			for {
				m, err := to.Recv(ctx)
				if err != nil {
					return
				}
				m.Release()
			}
		}()
		for range 50 {
			admit(t, n, nobody())
			admit(t, n, config.Admission{})
		}
		cancel()
		<-done
		rdstest.MustSend(t, s, s.LocalAddrPort(), []byte("end"))
		rdstest.Expect(t, s, "end")
	})
}
