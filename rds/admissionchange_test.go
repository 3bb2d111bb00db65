package rds

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
)

// onlyOf allows the addresses of some sockets.
func onlyOf(socks ...*Socket) Admission {
	var a Admission
	for _, s := range socks {
		a.Allow = append(a.Allow, netip.PrefixFrom(s.LocalAddrPort().Addr(), 32))
	}
	return a
}

// nobody is an allow-list of one address that no test has.
func nobody() Admission { return Admission{Allow: prefixes("192.0.2.1/32")} }

func admit(t testing.TB, n *Node, a Admission) {
	t.Helper()
	if err := n.SetAdmission(a); err != nil {
		t.Fatal(err)
	}
}

// admitting makes a socket of each provider, and returns its node too.
func admitting(t *testing.T, each func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node))) {
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		each(t, l, func(cfg Config) (*Socket, *Node) {
			n := l.node(cfg)
			return l.bind(n), n
		})
	})
	t.Run("rdsd", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		each(t, l, func(cfg Config) (*Socket, *Node) {
			n, _, path := served(t, l, cfg, ServiceConfig{})
			return bound(t, dialed(t, path), addrOf(newAddr(), 4000)), n
		})
	})
}

// Sending to a peer that is not allowed fails with EACCES: one that was never met, and one
// that was, in every way of sending, and the node's own addresses are always allowed.
func TestSendToAPeerThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node)) {
		s, n := bind(Config{})
		met, never := l.bind(l.node(Config{})), l.bind(l.node(Config{}))
		mustSend(t, s, met.LocalAddrPort(), []byte("hello"))
		expect(t, met, "hello")
		admit(t, n, nobody())
		mem := make([]byte, 100)
		for _, to := range []*Socket{met, never} {
			at := to.LocalAddrPort()
			cookie := mustGetMR(t, to, mem, MRReadWrite)
			local, err := s.AllocMemory(8)
			if err != nil {
				t.Fatal(err)
			}
			for what, o := range map[string]Outgoing{
				"a message": {Data: []byte("x")}, "a large one": {Data: make([]byte, 100_000)},
				"an operation": {RDMA: &RDMA{Cookie: cookie, Local: [][]byte{local.B[:8]}, Write: true}},
			} {
				o.To = at
				err := s.SendMessage(background(t), &o)
				wantErr(t, what, err, ErrPermission, syscall.EACCES)
				wantErr(t, what+", not waiting", s.TrySend(at, []byte("x")), ErrPermission)
			}
			many := []Outgoing{{To: at, Data: []byte("1")}, {To: at, Data: []byte("2")}}
			sent, err := s.SendBatch(background(t), many)
			if sent != 0 {
				t.Errorf("%d messages of a batch are sent", sent)
			}
			wantErr(t, "a batch", err, ErrPermission)
			local.Release()
		}
		if counter(t, n, "send_not_allowed") == 0 {
			t.Error("nothing is counted")
		}
		mustSend(t, s, s.LocalAddrPort(), []byte("to myself"))
		expect(t, s, "to myself")
		admit(t, n, onlyOf(met, never))
		for _, to := range []*Socket{met, never} {
			mustSend(t, s, to.LocalAddrPort(), []byte("again"))
			expect(t, to, "again")
		}
		admit(t, n, Admission{})
		if n.listed(met.LocalAddrPort().Addr()) || !n.allows(nowhere().Addr()) {
			t.Error("an empty list is a list")
		}
	})
}

// A change of the list resets the connections that are no longer allowed, and no others,
// and has new ones refused, counted by prefix.
func TestChangeEndsConnections(t *testing.T) {
	t.Parallel()
	for _, wire := range []Wire{WireTCP, WireXRC, WireAuto} {
		t.Run("wire "+string(wire), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			before := l.bind(l.node(Config{Wire: wire})) // has a smaller address: it dials s
			s := l.bind(l.node(Config{Wire: wire}))
			behind := l.bind(l.node(Config{Wire: wire})) // s dials it
			friend := l.bind(l.node(Config{Wire: wire}))
			n := nodeOf(s)
			for _, p := range []*Socket{before, behind, friend} {
				mustSend(t, p, s.LocalAddrPort(), []byte("there"))
				expect(t, s, "there")
				mustSend(t, s, p.LocalAddrPort(), []byte("and back"))
				expect(t, p, "and back")
			}
			admit(t, n, onlyOf(friend))
			eventually(t, "the end of connections", func() bool {
				return !slices.ContainsFunc(connections(t, n), func(c ConnectionInfo) bool {
					return c.Connected && c.Remote != friend.LocalAddrPort().Addr()
				})
			})
			mustSend(t, before, s.LocalAddrPort(), []byte("kept"))
			mustSend(t, behind, s.LocalAddrPort(), []byte("kept"))
			eventually(t, "refusals", func() bool { return counter(t, n, "conn_not_allowed") >= 4 })
			info := infoOf(t, n).Admission
			if info == nil || len(info.Allow) != 1 || info.Rejected < 4 || len(info.Prefixes) == 0 || info.Prefixes[0].Prefix.Bits() != 24 {
				t.Errorf("%+v", info)
			}
			mustSend(t, s, friend.LocalAddrPort(), []byte("still"))
			expect(t, friend, "still")
			wantNothing(t, s)
			for _, c := range connections(t, n) {
				if c.Remote == friend.LocalAddrPort().Addr() && c.Path[0].Resets != 0 {
					t.Error("the connection of a peer that is allowed was ended too")
				}
			}
			admit(t, n, onlyOf(friend, before, behind))
			expect(t, s, "kept") // each peer has kept its message, and is taken again
			expect(t, s, "kept")
		})
	}
}

// The node's transport turns a stranger away by the allow-list before the node hears of the
// connection, and does not dial a stranger.
func TestTransportTurnsStrangersAway(t *testing.T) {
	t.Parallel()
	for _, wire := range []Wire{WireTCP, WireXRC} {
		t.Run(string(wire), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			stranger := l.bind(l.node(Config{Wire: wire}))
			s := l.bind(l.node(Config{Wire: wire, Admission: nobody()}))
			n := nodeOf(s)
			mustSend(t, stranger, s.LocalAddrPort(), []byte("x"))
			eventually(t, "the stranger is turned away, and comes again", func() bool { return counter(t, n, "conn_not_allowed") > 1 })
			if got := counter(t, n, "send_not_allowed"); got != 0 || peersOf(n) != 0 {
				t.Errorf("%d peers, and %d were refused", peersOf(n), got)
			}
			link, err := n.wire.Dial(background(t), s.LocalAddrPort().Addr(), stranger.LocalAddrPort().Addr(), 0)
			if !errors.Is(err, transport.ErrNotAllowed) {
				t.Errorf("the dial of a stranger: %v", err)
			}
			if err == nil {
				link.Close(transport.Abort)
			}
		})
	}
}

// What waits for a peer when it stops being allowed ends with a fate that is true: what
// was never written was not delivered.
func TestQueuedMessagesEndWhenThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node)) {
		s, n := bind(Config{})
		gone := nowhere()
		for i := range uint64(10) {
			o := Outgoing{To: gone, Data: make([]byte, 10+i*20_000), Notify: true, Token: i}
			if err := s.SendMessage(background(t), &o); err != nil {
				t.Fatal(err)
			}
		}
		admit(t, n, nobody())
		for i := range uint64(10) {
			wantStatus(t, s, i, StatusOtherError)
		}
		if got := counter(t, n, "send_not_allowed"); got < 10 {
			t.Errorf("%d counted", got)
		}
	})
}

// Senders that are blocked hear of it, whatever they wait for.
func TestBlockedSendersHearThatThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node)) {
		for name, prepare := range map[string]func(s *Socket, to *Socket) netip.AddrPort{
			"room": func(s *Socket, _ *Socket) netip.AddrPort {
				if err := s.SetWriteBuffer(100_000); err != nil {
					t.Fatal(err)
				}
				gone := nowhere()
				for s.TrySend(gone, make([]byte, 10_000)) == nil {
				}
				return gone
			},
			"a congested port": func(s, to *Socket) netip.AddrPort {
				if err := to.SetReadBuffer(1000); err != nil {
					t.Fatal(err)
				}
				eventually(t, "congestion", func() bool { return errors.Is(s.TrySend(to.LocalAddrPort(), make([]byte, 500)), ErrCongested) })
				return to.LocalAddrPort()
			},
		} {
			s, n := bind(Config{})
			to := prepare(s, l.bind(l.node(Config{})))
			got := make(chan error, 1)
			go func() { got <- s.Send(background(t), to, make([]byte, 10_000)) }()
			eventually(t, "a sender waits for "+name, func() bool {
				return slices.ContainsFunc(infoOf(t, n).Waits, func(w WaitInfo) bool { return w.Senders > 0 })
			})
			admit(t, n, nobody())
			select {
			case err := <-got:
				wantErr(t, name, err, ErrPermission)
			case <-time.After(patience):
				t.Fatalf("a sender that waits for %s is not told", name)
			}
		}
	})
}

// A sender that waits for room, which a message for another peer takes, hears that its own
// peer is no longer allowed: no message for that peer ends, which would make room.
func TestSenderBehindOthersHearsThatThePeerIsNotAllowed(t *testing.T) {
	t.Parallel()
	admitting(t, func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node)) {
		slow := l.raw()
		s, n := bind(Config{Wire: WireTCP})
		to := l.bind(l.node(Config{Wire: WireTCP}))
		ping(t, s, to.LocalAddrPort().Addr())
		link := slow.dial(s.LocalAddrPort().Addr())
		mustSet(t, link.Conn.(*net.TCPConn).SetReadBuffer(4096)) // The message below is never acknowledged.
		link.write(link.probe(link.hs))
		eventually(t, "the link of the slow peer", func() bool {
			return slices.ContainsFunc(connections(t, n), func(c ConnectionInfo) bool { return c.Connected && c.Remote == slow.addr })
		})
		mustSet(t, s.SetWriteBuffer(MaxMessage))
		mustSend(t, s, addrOf(slow.addr, 9), make([]byte, MaxMessage))
		got := make(chan error, 1)
		go func() { got <- s.Send(background(t), to.LocalAddrPort(), []byte("x")) }()
		eventually(t, "a sender waits", func() bool {
			return slices.ContainsFunc(infoOf(t, n).Waits, func(w WaitInfo) bool { return w.Senders > 0 })
		})
		admit(t, n, Admission{Allow: []netip.Prefix{netip.PrefixFrom(slow.addr, 32)}})
		select {
		case err := <-got:
			wantErr(t, "the sender", err, ErrPermission)
		case <-time.After(patience):
			t.Fatal("the sender is not told")
		}
	})
}

// The list is changed again and again while a peer sends: on XRC, where a message is
// acknowledged when it was taken, each arrives once, in order.
func TestChangesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.bind(l.node(Config{Wire: WireXRC})), l.bind(l.node(Config{Wire: WireXRC}))
	n := nodeOf(b)
	const count, turns = 3000, 30
	ctx := background(t)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := uint64(0); i < count && err == nil; i++ {
			err = a.Send(ctx, b.LocalAddrPort(), payload(i, 1000))
		}
		done <- err
	}()
	for i := range uint64(count) {
		if i%(count/turns) == 0 {
			admit(t, n, nobody())
			admit(t, n, onlyOf(a))
		}
		expectNumber(t, b, i)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantNothing(t, b)
}

// Sends, changes and ends at once.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	admitting(t, func(t *testing.T, l *lab, bind func(Config) (*Socket, *Node)) {
		s, n := bind(Config{})
		to := l.bind(l.node(Config{}))
		ctx, cancel := context.WithCancel(background(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if err := s.Send(ctx, to.LocalAddrPort(), make([]byte, 20_000)); err != nil && !errors.Is(err, ErrPermission) && ctx.Err() == nil {
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
			admit(t, n, Admission{})
		}
		cancel()
		<-done
		mustSend(t, s, s.LocalAddrPort(), []byte("end"))
		expect(t, s, "end")
	})
}

func TestSetAdmissionIsValidated(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(Config{})
	if err := n.SetAdmission(Admission{Allow: []netip.Prefix{{}}}); !errors.Is(err, ErrInvalid) || n.allowed.Load() != nil {
		t.Errorf("%v", err)
	}
}
