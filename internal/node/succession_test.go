//go:build !live

package node

import (
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// heirs makes one node after the other at an address, with one state file.
type heirs struct {
	*lab
	at    netip.Addr
	state string
	wire  config.Wire
}

func newHeirs(t *testing.T, l *lab, w config.Wire) *heirs {
	return &heirs{l, rdstest.NewAddr(), filepath.Join(t.TempDir(), "state"), w}
}

func (h *heirs) config() config.Node {
	return config.Node{Addresses: []netip.Addr{h.at}, State: h.state, Wire: h.wire, ReconnectMax: 20 * time.Millisecond, Grace: time.Hour}
}

func (h *heirs) next() *Node { h.Helper(); return h.node(h.config()) }

// far is a socket of another node, a peer of the heirs.
func (h *heirs) far() *socket.Socket {
	h.Helper()
	return h.bindOne(config.Node{Wire: h.wire, ReconnectMax: 20 * time.Millisecond})
}

// had has a node bind ports and end: its successor expects them.
func (h *heirs) had(ports ...netip.AddrPort) {
	h.Helper()
	n := h.next()
	for _, a := range ports {
		h.bind(n, a)
	}
	h.end(n)
}

func (h *heirs) end(n *Node) {
	h.Helper()
	rdstest.Must(h, n.Close())
}

// A node that starts takes in those who had ports before it takes in peers: what peers
// have for them finds them.
func TestProgramsComeBeforePeers(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		l := newMemLab(t)
		h := newHeirs(t, l, w)
		far := h.far()
		one, two := rdstest.AddrOf(h.at, 4000), rdstest.AddrOf(h.at, 4001)
		h.had(one, two)
		rdstest.MustSend(t, far, one, []byte("one"))
		n := h.next()
		a := l.bind(n, one)
		if rdstest.Holds(100*time.Millisecond, func() bool { return len(rdstest.Report(t, n).Connections) > 0 }) {
			t.Error("a peer was taken in while a port was missing")
		}
		began := time.Now()
		l.bind(n, two)
		rdstest.Expect(t, a, "one")
		t.Logf("received %v after the last port was bound", time.Since(began))
		rdstest.WantCounter(t, n, "recv_drop_no_sock", 0)
	})
}

// A port that is not bound again counts as congested, what comes for it all the same is
// the next owner's, and when the grace is over the port is as any other.
func TestExpectedPortIsKept(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		l := newMemLab(t)
		h := newHeirs(t, l, w)
		far := h.far()
		late, never := rdstest.AddrOf(h.at, 4000), rdstest.AddrOf(h.at, 4001)
		h.had(late, never)
		const messages = 20
		for i := range messages {
			rdstest.MustSend(t, far, late, rdstest.Payload(uint64(i), 100+i*1000))
		}
		rdstest.MustSend(t, far, never, []byte("never"))
		n := h.next()
		la := n.Local(h.at)
		kept := func(port uint16) int64 {
			la.Mu.Lock()
			defer la.Mu.Unlock()
			if k := la.Keepers[port]; k != nil {
				return k.Queue.Count.Load()
			}
			return 0
		}
		waits := func(port uint16) (total int64, congested bool) { // in a keeper, or held back by the sender
			total = kept(port)
			nodeOf(far).EachPeer(func(p *Peer) {
				p.Lock()
				defer p.Unlock()
				congested = p.Core.Congested(port)
				for _, m := range p.Core.Messages(false, 1000) {
					if m.Dport == port {
						total++
					}
				}
			})
			return total, congested
		}
		rdstest.Eventually(t, "all to wait for congested ports", func() bool {
			a, stopped := waits(4000)
			b, stoppedToo := waits(4001)
			return a == messages && b == 1 && stopped && stoppedToo
		})
		if !la.expected(4000) || la.expected(4002) {
			t.Error("the wrong ports are expected")
		}
		other := l.bind(n, rdstest.AddrOf(h.at, 0))
		if p := other.LocalAddrPort().Port(); p == 4000 || p == 4001 {
			t.Errorf("port %d was chosen for somebody else", p)
		}
		s := l.bind(n, late)
		rdstest.ExpectNumbers(t, s, messages)
		rdstest.MustSend(t, far, late, []byte("more")) // the message waits for the port to be free
		rdstest.Expect(t, s, "more")
		n.graceOver()
		rdstest.Eventually(t, "the message for nobody to be dropped", func() bool { return rdstest.Counter(t, n, "recv_drop_no_sock") == 1 })
		rdstest.MustSend(t, far, never, nil)
		h.end(n)
		n = h.next() // a third one does not wait for that port
		if ports := n.Succession.ports[h.at]; len(ports) != 2 || n.Local(h.at).expected(4001) {
			t.Errorf("ports %v", ports)
		}
	})
}

// A port whose program has ended is not expected.
func TestClosedPortIsNotExpected(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	h := newHeirs(t, l, config.WireAuto)
	n := h.next()
	s := l.bind(n, rdstest.AddrOf(h.at, 4000))
	rdstest.Must(t, s.Close())
	h.end(n)
	n = h.next()
	if n.Local(h.at).expected(4000) || !isClosed(n.Succession.opened) {
		t.Error("the port is waited for")
	}
}

// The receive sequence goes on: what a peer sends again because it has not heard that
// the predecessor has it is not received twice.
func TestSequenceOutlivesTheNode(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		l := newMemLab(t)
		h := newHeirs(t, l, w)
		far := h.far()
		n := h.next()
		to := rdstest.AddrOf(h.at, 4000)
		s := l.bind(n, to)
		rdstest.MustSend(t, far, to, []byte("before"))
		rdstest.Expect(t, s, "before")
		next := func(n *Node) uint64 {
			p, err := n.Peer(n.Local(h.at), far.LocalAddrPort().Addr())
			rdstest.Must(t, err)
			return p.NextRX(0)
		}
		rdstest.Eventually(t, "the number to be noted", func() bool { return next(n) > 0 })
		was := next(n)
		h.end(n)
		n = h.next()
		if p, err := n.Peer(n.Local(h.at), far.LocalAddrPort().Addr()); err != nil || p.Inbound(0).Next() < was {
			t.Errorf("the sequence goes on with %d instead of %d: %v", p.Inbound(0).Next(), was, err)
		} else if g := p.Core.PeerGeneration(); g != nodeOf(far).Generation {
			t.Errorf("the peer's generation is %d instead of %d", g, nodeOf(far).Generation)
		}
	})
}

// A link that waits for room in a keeper goes on with the port's next owner.
func TestLinkThatWaitsForAKeeperGoesOn(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		h := newHeirs(t, l, config.WireTCP)
		far := h.far()
		late := rdstest.AddrOf(h.at, 4000)
		h.had(late, rdstest.AddrOf(h.at, 4001))
		const messages = 50
		for i := range messages {
			rdstest.MustSend(t, far, late, rdstest.Payload(uint64(i), 10_000))
		}
		cfg := h.config()
		cfg.ReceiveBuffer, cfg.ReceiveOverrun = 100_000, 50_000
		n := h.node(cfg)
		rdstest.Eventually(t, "the link to wait", func() bool { return rdstest.Counter(t, n, "recv_paused") > 0 })
		rdstest.ExpectNumbers(t, l.bind(n, late), messages)
	})
}

// What a keeper has taken is not delivered: its sender never hears that it was, for
// nobody may come for it. On XRC a keeper gets nothing from senders that look at what they
// are told before they are granted anything: their messages wait there.
func TestKeptIsNeverSuccess(t *testing.T) {
	t.Parallel()
	for _, w := range []config.Wire{config.WireXRC, "loop"} {
		t.Run(string(w), func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				l, cfg := newMemLab(t), config.Node{Wire: config.WireXRC, ReconnectMax: 20 * time.Millisecond}
				if w == "loop" {
					l, cfg.Wire = newLoopLab(t), config.WireAuto
				}
				h := newHeirs(t, l, cfg.Wire)
				far := l.bindOne(cfg)
				n := h.next()
				late, never := rdstest.AddrOf(h.at, 4000), rdstest.AddrOf(h.at, 4001)
				l.bind(n, late)
				l.bind(n, never)
				h.end(n)
				const messages = 200
				send := func(token uint64, to netip.AddrPort) {
					rdstest.Must(t, far.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: to, Data: make([]byte, 1000), Notify: true, Token: token}))
				}
				for i := range uint64(messages) {
					send(2*i, late)
					send(2*i+1, never)
				}
				n = h.next()
				n.Succession.Open()
				la := n.Local(h.at)
				kept := func() (total int64) {
					la.Mu.Lock()
					defer la.Mu.Unlock()
					for _, k := range la.Keepers {
						total += k.Queue.Count.Load()
					}
					return total
				}
				rdstest.Eventually(t, "the peer to know", func() bool { // in memory the map may pass the peer's messages, or they the map
					return w == "loop" && kept() > 0 || congestedAt(nodeOf(far), 4000) && congestedAt(nodeOf(far), 4001)
				})
				first := kept()
				if w == config.WireXRC && first > 0 {
					t.Errorf("keepers have %d messages", first)
				}
				s := l.bind(n, late)
				rdstest.Drop(t, s, messages)
				n.graceOver()
				fates := map[bool]map[datagram.Status]int{true: {}, false: {}}
				for range 2 * messages {
					m := rdstest.MustRecv(t, far)
					fates[m.Token%2 == 0][m.Status]++
				}
				t.Logf("%d kept; of those that came late %v, of the others %v", first, fates[true], fates[false])
				if fates[false][datagram.StatusSuccess] > 0 || w == config.WireXRC && (fates[false][datagram.StatusRefused] < messages || fates[true][datagram.StatusSuccess] < messages) ||
					first > 0 && fates[true][datagram.StatusDropped]+fates[false][datagram.StatusDropped] == 0 {
					t.Error("wrong fates")
				}
			})
		})
	}
}

// While a port's next owner takes over what came for the port, receivers find the keeper or
// the owner: the port is never one that nobody is bound to.
func TestExpectedPortIsNeverNobodys(t *testing.T) {
	t.Parallel()
	const port = 4000
	n, l := new(Node), new(Local)
	s := newSocket(n, l)
	l.expectLocked(port, nil)
	k := l.keeper(n, port)
	k.Queue.In = make([]socket.Item, 1<<19) // takes a while to move
	const receivers = 4
	found := make(chan *Socket, receivers)
	var begun sync.WaitGroup
	begun.Add(receivers)
	k.Queue.Mu.Lock() // receivers, and the owner among them, wait for it
	for range receivers {
		go func() {
			begun.Done()
			r := &sink{peer: &Peer{Node: n, Local: l}, rx: new(driver.Receiver)}
			at := r.enter(port)
			for ; at == k; at = r.enter(port) {
				at.Queue.Mu.Unlock()
				runtime.Gosched()
			}
			if at != nil {
				at.Queue.Mu.Unlock()
			}
			found <- at
		}()
	}
	begun.Wait()
	bound := make(chan error)
	go func() {
		_, err := l.bind(s, port, nil)
		bound <- err
	}()
	for range 1000 {
		runtime.Gosched()
	}
	k.Queue.Mu.Unlock()
	rdstest.Must(t, <-bound)
	for range receivers {
		if <-found != s {
			t.Error("a receiver has found nobody")
		}
	}
	if l.keeper(n, port) != s { // a receiver looked the port up while the keeper still had it
		t.Error("a receiver that was late finds nobody")
	}
}
