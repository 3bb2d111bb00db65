//go:build live

package node

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
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

// descriptors is how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	rdstest.Must(t, err)
	return len(list)
}

// busy is the CPU time that this process has used.
func busy(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	rdstest.Must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
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
	for _, w := range []config.Wire{config.WireTCP, config.WireAuto} {
		l := newLab(t)
		victim := l.bind(l.node(config.Node{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}))
		at := victim.LocalAddrPort().Addr()
		a := &rdstest.Attacker{To: netip.AddrPortFrom(at, l.Port)}
		rdstest.StrangersFrom(200, a.Once) // what is made once is there
		nd := nodeOf(victim)
		quiet := func() bool { return rdstest.Peers(nd) == 0 && nd.strangers.size() == 0 }
		rdstest.Eventually(t, "the first strangers to be forgotten", quiet)
		memory, files := rdstest.Heap(), descriptors(t)

		attack := make(chan struct{})
		go func() {
			defer close(attack)
			rdstest.StrangersFrom(n, a.Once)
		}()
		before, after := l.bind(l.node(config.Node{Wire: w})), l.bind(l.node(config.Node{Wire: w}))
		for _, s := range []*socket.Socket{before, after} {
			rdstest.MustSend(t, s, victim.LocalAddrPort(), []byte("hello"))
			rdstest.Expect(t, victim, "hello")
		}
		other := l.bind(nd)
		rdstest.MustSend(t, other, after.LocalAddrPort(), []byte("answer"))
		rdstest.Expect(t, after, "answer")
		from := l.bind(l.node(config.Node{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}))
		oneWay(t, from, victim, 20, func() bool { return true })
		<-attack
		for _, s := range []*socket.Socket{before, after, from} {
			_ = nodeOf(s).Close()
		}
		_ = other.Close()
		rdstest.Eventually(t, "the strangers to be forgotten", quiet)
		if c := nd.choice; c != nil {
			rdstest.Eventually(t, "the choices of wires to be forgotten", func() bool { return c.Pairs() <= 3 })
		}
		rdstest.Eventually(t, "descriptors to be closed", func() bool { return descriptors(t) <= files+8 })
		used := int64(rdstest.Heap()) - int64(memory)
		t.Logf("%d connections, %d failed, %d refused: %d bytes of heap more", n, a.Fails.Load(), nd.Counters.strangersRefused.Load(), used)
		if used > 32<<20 { // the nodes of this test had buffers; 2,000 peers would be 100 MiB
			t.Errorf("%d bytes of heap are left", used)
		}
		rdstest.Eventually(t, "reservations to be given back", func() bool { // connections may still wait to be accepted
			_, reserved, _ := nd.Sequences.size()
			return reserved == 0 && quiet()
		})
		if records, _, _ := nd.Sequences.size(); records > 3 {
			t.Errorf("%d sequences of the honest peers", records)
		}
		numbers := func() uint32 {
			nd.Mu.Lock()
			defer nd.Mu.Unlock()
			return nd.Index.next
		}
		dials := numbers()
		if dials > maxStrangers+100 {
			t.Errorf("%d numbers were given to peers", dials)
		}
		cpu := busy(t)
		second := time.NewTimer(time.Second)
		<-second.C
		if cpu = busy(t) - cpu; cpu > 500*time.Millisecond {
			t.Errorf("%v of CPU in a second when the attack is over", cpu)
		}
		if numbers() != dials {
			t.Error("peers are made when the attack is over")
		}
	}
}

// The count of strangers that stay connected is bounded, in all and of a network. Peers that
// have proved something, and those that sockets here send to, are not refused.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.bind(l.node(config.Node{Wire: config.WireTCP}))
	nd := l.node(config.Node{Wire: config.WireTCP})
	victim := l.bind(nd)
	rdstest.MustSend(t, old, victim.LocalAddrPort(), []byte("I was here"))
	rdstest.Expect(t, victim, "I was here")
	rdstest.CutLinks(nd)

	a := &rdstest.Attacker{To: netip.AddrPortFrom(victim.LocalAddrPort().Addr(), l.Port)}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	third, pings := byte(rand.IntN(250)), rdstest.Counter(t, nd, "recv_ping")
	dial := func(from netip.Addr) {
		c, err := a.Connect(from)
		if err != nil {
			return
		}
		_, _ = c.Write(rdstest.Probe(rand.Uint32()|1, 1)) // silent links have a lower limit (transport.MostSetups)
		if conns = append(conns, c); len(conns)%64 == 0 {
			rdstest.Eventually(t, "the links to be started or refused", func() bool {
				return rdstest.Counter(t, nd, "recv_ping")-pings+nd.Counters.strangersRefused.Load() >= uint64(len(conns))
			})
		}
	}
	for x := range 256 { // smaller addresses, so that the node takes the links
		dial(netip.AddrFrom4([4]byte{127, 0, third, byte(x)}))
		if x < 10 {
			dial(netip.AddrFrom4([4]byte{127, 0, third + 1, byte(x)}))
		}
	}
	full := func() int { return nd.strangers.size() }
	rdstest.Eventually(t, "strangers to be counted", func() bool { return full() >= maxNetworkStrangers })
	for x := range 4 {
		for y := range 256 {
			dial(netip.AddrFrom4([4]byte{127, 0, third + 2 + byte(x), byte(y)}))
		}
	}
	rdstest.Eventually(t, "strangers to be refused", func() bool { return full() == maxStrangers && nd.Counters.strangersRefused.Load() > 0 })

	rdstest.MustSend(t, old, victim.LocalAddrPort(), []byte("and I am back")) // old has proved itself before
	rdstest.Expect(t, victim, "and I am back")
	fresh := l.bind(l.node(config.Node{Wire: config.WireTCP}))
	rdstest.MustSend(t, victim, fresh.LocalAddrPort(), []byte("you are new"))
	rdstest.Expect(t, fresh, "you are new")
	rdstest.MustSend(t, fresh, victim.LocalAddrPort(), []byte("I am"))
	rdstest.Expect(t, victim, "I am")
	if full() != maxStrangers {
		t.Errorf("%d strangers", full())
	}
}

// Somebody connects from an honest peer's address again and again, and states another
// generation and other path settings each time: the honest links go on, the streams on all
// paths come once and in order, and so they do when honest links are lost meanwhile. One case
// runs at a time, and honest links have longer than a second to answer, so that a busy machine
// does not make them slow: that they have a second is shown in package conn and in the simulator.
func TestImpostorDoesNotBreakTheStream(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		cut, w, paths := i%2 == 1, []config.Wire{config.WireTCP, config.WireXRC}[i/2%2], []int{1, conn.MaxPaths}[i/4]
		t.Run(fmt.Sprintf("%s/cut=%v/paths=%d", w, cut, paths), func(t *testing.T) {
			l := newLab(t)
			cfg := config.Node{Wire: w, Paths: paths, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}
			node := l.node(cfg)
			honest := []*socket.Socket{l.bind(node)} // the address is the smaller one: the node dials
			for len(honest) < 4*paths-3 {            // enough for every path to have a stream
				at := honest[0].LocalAddrPort()
				honest = append(honest, l.bind(node, netip.AddrPortFrom(at.Addr(), at.Port()+uint16(len(honest)))))
			}
			target := l.node(cfg)
			target.askTimeout = 20 * time.Second
			victim := l.bind(target)
			to := victim.LocalAddrPort()

			a := &rdstest.Attacker{To: netip.AddrPortFrom(to.Addr(), l.Port)}
			ctx, cancel := context.WithCancel(rdstest.Background(t))
			var work sync.WaitGroup
			defer work.Wait()
			defer cancel()
			var links atomic.Int64
			pose := map[config.Wire]func(context.Context, netip.Addr) bool{config.WireTCP: a.Pose, config.WireXRC: a.PoseXRC}[w]
			for _, s := range honest {
				rdstest.MustSend(t, s, to, rdstest.Payload(0, 100))
			}
			rdstest.Eventually(t, "links of all paths", func() bool { return provedPaths(t, node) == paths })
			work.Go(func() {
				for ctx.Err() == nil {
					if pose(ctx, honest[0].LocalAddrPort().Addr()) {
						links.Add(1)
					}
				}
			})
			for _, s := range honest {
				work.Go(func() {
					for i := 1; i < 1000/len(honest) || links.Load() <= 20; i++ {
						if err := s.Send(ctx, to, rdstest.Payload(uint64(i), 500)); err != nil {
							t.Error(err)
							return
						}
					}
					rdstest.NoError(t, s.Send(ctx, to, nil))
				})
			}
			resets := func() uint64 { return resetsOf(t, node) }
			got := make(map[netip.AddrPort]uint64)
			for total, left := 0, len(honest); left > 0; total++ {
				m := rdstest.MustRecv(t, victim)
				if len(m.Data) == 0 {
					left--
					continue
				}
				if err := rdstest.Verify(m.Data, got[m.From]); err != nil {
					t.Fatal(m.From, err)
				}
				got[m.From]++
				m.Release()
				switch {
				case cut && total%600 == 0:
					rdstest.CutLinks(node)
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

// provedPaths is how many paths of a node's first connection are up and proved.
func provedPaths(t *testing.T, n *Node) (up int) {
	for _, p := range rdstest.Report(t, n).Connections[0].Path {
		if p.State == conn.Up.String() && p.Proved {
			up++
		}
	}
	return up
}

// resetsOf is how many links of a node were lost.
func resetsOf(t *testing.T, n *Node) (lost uint64) {
	for _, c := range rdstest.Report(t, n).Connections {
		for _, p := range c.Path {
			lost += p.Resets
		}
	}
	return lost
}

// cutPath ends the links of one path of a node.
func cutPath(n *Node, path int) {
	n.EachPeer(func(p *Peer) {
		p.Lock()
		l := p.Link(path)
		p.Unlock()
		if l != nil {
			l.Close(transport.Abort)
		}
	})
}
