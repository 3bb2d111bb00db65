package rds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// attacker connects to a node's RDS/TCP port from any address of 127.0.0.0/8.
type attacker struct {
	to    netip.AddrPort
	fails atomic.Int64
}

// probe is what an attacker sends: a probe with a generation of its own.
func probe(generation uint32, seq uint64) []byte {
	return statement(wire.Handshake{HasPaths: true, Paths: 1, Generation: generation}, seq)
}

// statement is a probe that states hs.
func statement(hs wire.Handshake, seq uint64) []byte {
	h := wire.Header{Sequence: seq, Sport: wire.PortProbe}
	hs.Put(&h.Extensions)
	return h.AppendTo(nil)
}

// anyStatement states a generation and path settings of an attacker's own.
func anyStatement(generation uint32) []byte {
	paths := []uint16{1, conn.MaxPaths}[rand.IntN(2)]
	return statement(wire.Handshake{HasPaths: true, Paths: paths, Generation: generation, SourceIndex: rand.IntN(2) == 0}, 1)
}

// connect connects from an address; the connection ends with a reset.
func (a *attacker) connect(from netip.Addr) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
	c, err := d.Dial("tcp4", a.to.String())
	if err != nil {
		return nil, err
	}
	t := c.(*net.TCPConn)
	_ = t.SetLinger(0)
	return t, nil
}

// once connects, sends one probe, and resets the connection.
func (a *attacker) once(from netip.Addr) {
	c, err := a.connect(from)
	if err != nil {
		a.fails.Add(1)
		return
	}
	_, _ = c.Write(probe(rand.Uint32()|1, 1))
	_ = c.Close()
}

// strangersFrom calls f for n addresses, each of which nobody else has, by a few goroutines.
func strangersFrom(n int, f func(from netip.Addr)) {
	var wg sync.WaitGroup
	base := rand.Uint32N(1 << 22)
	for k := range 8 {
		wg.Go(func() {
			for i := k; i < n; i += 8 {
				x := base + uint32(i)
				f(netip.AddrFrom4([4]byte{127, 128 + byte(x>>16), byte(x >> 8), byte(x)}))
			}
		})
	}
	wg.Wait()
}

// descriptors is how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// busy is the CPU time that this process has used.
func busy(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// One-shot connections from thousands of addresses, a probe each and a reset, leave nothing
// behind: no peers, no sequences, no descriptors, no memory, and nothing that is dialed. A
// new honest peer is reached while they come, in both directions, and one-way traffic whose
// links are reset all the time is taken once. RDS_LONG=1 has 20,000 of them.
func TestOneShotConnectionsLeaveNothing(t *testing.T) {
	n := 2000
	if os.Getenv("RDS_LONG") != "" {
		n = 20_000
	}
	for _, w := range []Wire{WireTCP, WireAuto} {
		l := newLab(t)
		victim := l.bind(l.node(Config{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}))
		at := victim.LocalAddrPort().Addr()
		a := &attacker{to: netip.AddrPortFrom(at, l.port)}
		strangersFrom(200, a.once) // what is made once is there
		node := nodeOf(victim)
		quiet := func() bool { return peersOf(node) == 0 && node.strangers.size() == 0 }
		eventually(t, "the first strangers to be forgotten", quiet)
		memory, files := heap(), descriptors(t)

		attack := make(chan struct{})
		go func() {
			defer close(attack)
			strangersFrom(n, a.once)
		}()
		before, after := l.bind(l.node(Config{Wire: w})), l.bind(l.node(Config{Wire: w}))
		for _, s := range []*Socket{before, after} {
			mustSend(t, s, victim.LocalAddrPort(), []byte("hello"))
			expect(t, victim, "hello")
		}
		other := l.bind(node)
		mustSend(t, other, after.LocalAddrPort(), []byte("answer"))
		expect(t, after, "answer")
		from := l.bind(l.node(Config{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}))
		oneWay(t, from, victim, 20)
		<-attack
		for _, s := range []*Socket{before, after, from} {
			_ = nodeOf(s).Close()
		}
		_ = other.Close()
		eventually(t, "the strangers to be forgotten", quiet)
		if c, ok := node.wire.(interface{ Pairs() int }); ok {
			eventually(t, "the choices of wires to be forgotten", func() bool { return c.Pairs() <= 3 })
		}
		eventually(t, "descriptors to be closed", func() bool { return descriptors(t) <= files+8 })
		used := int64(heap()) - int64(memory)
		t.Logf("%d connections, %d failed, %d refused: %d bytes of heap more", n, a.fails.Load(), node.counters.strangersRefused.Load(), used)
		if used > 32<<20 { // the nodes of this test had buffers; 2,000 peers would be 100 MiB
			t.Errorf("%d bytes of heap are left", used)
		}
		eventually(t, "reservations to be given back", func() bool { // connections may still wait to be accepted
			_, reserved, _ := node.sequences.size()
			return reserved == 0 && quiet()
		})
		if records, _, _ := node.sequences.size(); records > 3 {
			t.Errorf("%d sequences of the honest peers", records)
		}
		if node.index.next > maxStrangers+100 {
			t.Errorf("%d numbers were given to peers", node.index.next)
		}
		dials := node.index.next
		cpu := busy(t)
		second := time.NewTimer(time.Second)
		<-second.C
		if cpu = busy(t) - cpu; cpu > 500*time.Millisecond {
			t.Errorf("%v of CPU in a second when the attack is over", cpu)
		}
		if node.index.next != dials {
			t.Error("peers are made when the attack is over")
		}
	}
}

// The count of strangers that stay connected is bounded, in all and of a network. Peers that
// have proved something, and those that sockets here send to, are not refused.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.bind(l.node(Config{Wire: WireTCP}))
	node := l.node(Config{Wire: WireTCP})
	victim := l.bind(node)
	mustSend(t, old, victim.LocalAddrPort(), []byte("I was here"))
	expect(t, victim, "I was here")
	cutLinks(node)

	a := &attacker{to: netip.AddrPortFrom(victim.LocalAddrPort().Addr(), l.port)}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	third, pings := byte(rand.IntN(250)), counter(t, node, "recv_ping")
	dial := func(from netip.Addr) {
		c, err := a.connect(from)
		if err != nil {
			return
		}
		_, _ = c.Write(probe(rand.Uint32()|1, 1)) // silent links have a lower limit (transport.MostSetups)
		if conns = append(conns, c); len(conns)%64 == 0 {
			eventually(t, "the links to be started or refused", func() bool {
				return counter(t, node, "recv_ping")-pings+node.counters.strangersRefused.Load() >= uint64(len(conns))
			})
		}
	}
	for x := range 256 { // smaller addresses, so that the node takes the links
		dial(netip.AddrFrom4([4]byte{127, 0, third, byte(x)}))
		if x < 10 {
			dial(netip.AddrFrom4([4]byte{127, 0, third + 1, byte(x)}))
		}
	}
	full := func() int { return node.strangers.size() }
	eventually(t, "strangers to be counted", func() bool { return full() >= maxNetworkStrangers })
	for x := range 4 {
		for y := range 256 {
			dial(netip.AddrFrom4([4]byte{127, 0, third + 2 + byte(x), byte(y)}))
		}
	}
	eventually(t, "strangers to be refused", func() bool { return full() == maxStrangers && node.counters.strangersRefused.Load() > 0 })

	mustSend(t, old, victim.LocalAddrPort(), []byte("and I am back")) // old has proved itself before
	expect(t, victim, "and I am back")
	fresh := l.bind(l.node(Config{Wire: WireTCP}))
	mustSend(t, victim, fresh.LocalAddrPort(), []byte("you are new"))
	expect(t, fresh, "you are new")
	mustSend(t, fresh, victim.LocalAddrPort(), []byte("I am"))
	expect(t, victim, "I am")
	if full() != maxStrangers {
		t.Errorf("%d strangers", full())
	}
}

// pose makes a link on RDS/TCP from an address that is not the attacker's, with a random
// generation and random path settings, which lasts until the node refuses the link, or for a
// moment.
func (a *attacker) pose(_ context.Context, from netip.Addr) bool {
	c, err := a.connect(from)
	if err != nil {
		return false
	}
	_, _ = c.Write(anyStatement(rand.Uint32() | 1))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = c.Read(make([]byte, 64))
	_ = c.Close()
	return true
}

// poseXRC is pose on XRC, with a whole set-up.
func (a *attacker) poseXRC(ctx context.Context, from netip.Addr) bool {
	generation := rand.Uint32() | 1
	x, err := xrc.New(xrc.Options{Port: a.to.Port() ^ 1, EventLoops: 1, Generation: generation})
	if err != nil {
		return false
	}
	defer x.Close()
	link, err := x.Dial(ctx, from, a.to.Addr(), rand.IntN(conn.MaxPaths))
	if err != nil {
		return false
	}
	m := &mute{room: make(chan struct{}, 1), closed: make(chan struct{})}
	if link.Start(m) != nil {
		return false
	}
	moment, end := context.WithTimeout(ctx, 5*time.Millisecond)
	defer end()
	if h := anyStatement(generation); m.write(link, moment.Done(), len(h), h) {
		select {
		case <-m.closed:
		case <-moment.Done():
		}
	}
	link.Close(transport.Abort)
	return true
}

// Somebody connects from an honest peer's address again and again, and states another
// generation and other path settings each time: the honest links go on, the streams on all
// paths come once and in order, and so they do when honest links are lost meanwhile. One case
// runs at a time, and honest links have longer than a second to answer, so that a busy machine
// does not make them slow: that they have a second is shown in package conn and in the simulator.
func TestImpostorDoesNotBreakTheStream(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		cut, w, paths := i%2 == 1, []Wire{WireTCP, WireXRC}[i/2%2], []int{1, conn.MaxPaths}[i/4]
		t.Run(fmt.Sprintf("%s/cut=%v/paths=%d", w, cut, paths), func(t *testing.T) {
			l := newLab(t)
			cfg := Config{Wire: w, Paths: paths, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}
			node := l.node(cfg)
			honest := []*Socket{l.bind(node)} // the address is the smaller one: the node dials
			for len(honest) < 4*paths-3 {     // enough for every path to have a stream
				at := honest[0].LocalAddrPort()
				honest = append(honest, l.bind(node, netip.AddrPortFrom(at.Addr(), at.Port()+uint16(len(honest)))))
			}
			target := l.node(cfg)
			target.askTimeout = 20 * time.Second
			victim := l.bind(target)
			to := victim.LocalAddrPort()

			a := &attacker{to: netip.AddrPortFrom(to.Addr(), l.port)}
			ctx, cancel := context.WithCancel(background(t))
			var work sync.WaitGroup
			defer work.Wait()
			defer cancel()
			var links atomic.Int64
			pose := a.pose
			if w == WireXRC {
				pose = a.poseXRC
			}
			for _, s := range honest {
				mustSend(t, s, to, payload(0, 100))
			}
			eventually(t, "links of all paths", func() bool {
				up := 0
				for _, p := range connections(t, node)[0].Path {
					if p.State == conn.Up.String() && p.Proved {
						up++
					}
				}
				return up == paths
			})
			work.Go(func() {
				for ctx.Err() == nil {
					if pose(ctx, honest[0].LocalAddrPort().Addr()) {
						links.Add(1)
					}
				}
			})
			for _, s := range honest {
				work.Go(func() {
					for i := 1; i < 3000/len(honest) || links.Load() <= 50; i++ {
						if err := s.Send(ctx, to, payload(uint64(i), 500)); err != nil {
							t.Error(err)
							return
						}
					}
					if err := s.Send(ctx, to, nil); err != nil {
						t.Error(err)
					}
				})
			}
			resets := func() (n uint64) {
				for _, c := range connections(t, node) {
					for _, p := range c.Path {
						n += p.Resets
					}
				}
				return n
			}
			got := make(map[netip.AddrPort]uint64)
			for total, left := 0, len(honest); left > 0; total++ {
				m := mustRecv(t, victim)
				if len(m.Data) == 0 {
					left--
					continue
				}
				if err := verify(m.Data, got[m.From]); err != nil {
					t.Fatal(m.From, err)
				}
				got[m.From]++
				m.Release()
				switch {
				case cut && total%600 == 0:
					cutLinks(node)
				case cut && total%100 == 0:
					cutPath(node, total/100%paths)
				}
			}
			if !cut && resets() != 0 {
				t.Errorf("honest links were lost %d times", resets())
			}
			if cut && resets() == 0 {
				t.Error("no honest link was lost")
			}
			t.Logf("%d links of the impostor, %d losses of the honest ones", links.Load(), resets())
		})
	}
}

// cutPath ends the links of one path of a node.
func cutPath(n *Node, path int) {
	n.eachPeer(func(p *peer) {
		p.Lock()
		l := p.Link(path)
		p.Unlock()
		if l != nil {
			l.Close(transport.Abort)
		}
	})
}
