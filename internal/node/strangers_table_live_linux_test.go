//go:build live

package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
)

// A /64 that has its share of strangers gets no more of them in, and neither that nor a /24
// is bound if the allow-list names it.
func TestListedNetworksAreNotBound(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		l := newLab(t)
		var cfg config.Node
		if listed {
			cfg.Admission.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
		}
		cfg.Wire = config.WireTCP
		n := l.node(cfg)
		s := l.bind(n)
		n.Mu.RLock()
		la := n.locals[s.LocalAddrPort().Addr()]
		n.Mu.RUnlock()
		const more = 20
		taken := 0
		var peers []*Peer
		for i := range maxNetworkStrangers + more {
			remote := netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))
			if p := n.accepting(la, PeerKey{Local: la.Addr, Remote: remote}); p != nil {
				peers = append(peers, p)
				taken++
			}
		}
		want := maxNetworkStrangers
		if listed {
			want += more
		}
		if refused := int(n.Counters.strangersRefused.Load()); taken != want || refused != maxNetworkStrangers+more-want {
			t.Errorf("listed %v: %d taken, %d refused", listed, taken, refused)
		}
		if got := n.strangers.size(); listed && got != 0 {
			t.Errorf("%d listed peers are counted", got)
		}
		for _, p := range peers {
			p.Release()
		}
		rdstest.Eventually(t, "peers without links to end", func() bool { return rdstest.Peers(n) == 0 && n.strangers.size() == 0 })

		at := []netip.Addr{s.LocalAddrPort().Addr(), l.bind(n).LocalAddrPort().Addr()} // a /24 has 256 addresses only
		before, pings := n.Counters.strangersRefused.Load(), rdstest.Counter(t, n, "recv_ping")
		for i := range maxNetworkStrangers + more {
			a := &rdstest.Attacker{To: netip.AddrPortFrom(at[i/256], l.Port)}
			c, err := a.Connect(netip.AddrFrom4([4]byte{127, 0, byte(1 + l.Port%250), byte(i)}))
			rdstest.Must(t, err)
			defer c.Close()
			_, _ = c.Write(rdstest.Probe(rand.Uint32()|1, 1))
			if i%64 == 63 || i == maxNetworkStrangers+more-1 { // silent links have a lower limit
				rdstest.Eventually(t, "the links to be started or refused", func() bool {
					return rdstest.Counter(t, n, "recv_ping")-pings+n.Counters.strangersRefused.Load()-before > uint64(i)
				})
			}
		}
		if refused := n.Counters.strangersRefused.Load() - before; listed && refused != 0 || !listed && refused != more {
			t.Errorf("listed %v: %d links of a /24 refused", listed, refused)
		}
	}
}

// The table of receive sequences is full: new strangers are refused when they connect, and
// peers that are in the table come back, though their last link was lost minutes ago; what
// they send again is taken once. Ten minutes after its last link the oldest makes room, and
// the younger ones stay.
func TestFullSequenceTable(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, w config.Wire) {
		const limit = 5
		l := newLab(t)
		var peers []*socket.Socket
		cfg := config.Node{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond}
		for range limit {
			peers = append(peers, l.bind(l.node(cfg)))
		}
		stranger := l.bind(l.node(cfg))
		n := l.node(cfg)
		victim := l.bind(n)
		n.Sequences.mu.Lock()
		n.Sequences.limit = limit
		n.Sequences.mu.Unlock()
		for i, s := range peers {
			rdstest.MustSend(t, s, victim.LocalAddrPort(), rdstest.Payload(0, 100))
			rdstest.ExpectNumber(t, victim, 0)
			if i%2 == 0 { // without a link some of them
				rdstest.CutLinks(nodeOf(s))
			}
		}
		rdstest.Eventually(t, "the table to be full", func() bool {
			records, reserved, _ := n.Sequences.size()
			return records == limit && reserved == 0
		})
		rdstest.Must(t, stranger.Send(rdstest.Background(t), victim.LocalAddrPort(), rdstest.Payload(7, 100)))
		rdstest.Eventually(t, "the stranger to be refused", func() bool { return rdstest.Counter(t, n, "sequences_full") > 0 })
		for i, s := range peers {
			if records, _, _ := n.Sequences.size(); records != limit {
				t.Errorf("%d records", records)
			}
			for k := range uint64(10) {
				rdstest.MustSend(t, s, victim.LocalAddrPort(), rdstest.Payload(k+1, 100))
				if k == 5 {
					rdstest.CutLinks(nodeOf(s))
				}
			}
			for k := range uint64(10) {
				m := rdstest.MustRecv(t, victim)
				if err := rdstest.Verify(m.Data, k+1); err != nil || m.From != s.LocalAddrPort() {
					t.Fatalf("peer %d, message of %v: %v", i, m.From, err)
				}
				m.Release()
			}
		}
		for i, s := range peers {
			_ = nodeOf(s).Close()
			rdstest.Eventually(t, "the peer to end", func() bool { return rdstest.Peers(n) < limit-i })
		}
		n.Sequences.mu.Lock()
		for i := range n.Sequences.ended.All() { // the first peer's link was lost ten minutes ago
			e := &n.Sequences.ended.All()[i]
			if e.s.remote == peers[0].LocalAddrPort().Addr() && e.s.ended.Equal(e.at) {
				e.at = e.at.Add(-sequenceTime)
				e.s.ended = e.at
			}
		}
		n.Sequences.mu.Unlock()
		rdstest.ExpectNumber(t, victim, 7)
		if records, _, _ := n.Sequences.size(); records != limit {
			t.Errorf("%d records", records)
		}
		for i, s := range peers {
			if got := n.Sequences.has(addressPair{victim.LocalAddrPort().Addr(), s.LocalAddrPort().Addr()}); got != (i > 0) {
				t.Errorf("peer %d is in the table: %v", i, got)
			}
		}
	})
}

// What a stranger delivers before it states its generation is remembered by that generation alone:
// it takes one place of the table.
func TestAStatementTakesNoSecondPlace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(config.Node{Wire: config.WireTCP})
	victim := l.bind(n)
	to, from := victim.LocalAddrPort(), netip.AddrFrom4([4]byte{127, 0, byte(1 + l.Port%250), 9})
	a := &rdstest.Attacker{To: netip.AddrPortFrom(to.Addr(), l.Port)}
	for i := range uint64(2) { // the second link comes back to what the first one has left
		c, err := a.Connect(from)
		rdstest.Must(t, err)
		defer c.Close()
		h := wire.Header{Sequence: 1 + i, Sport: 4000, Dport: to.Port()}
		_, err = c.Write(rdstest.Message(h, rdstest.Payload(i, 100)))
		rdstest.Must(t, err)
		rdstest.ExpectNumber(t, victim, i)
		pings := rdstest.Counter(t, n, "recv_ping")
		_, err = c.Write(rdstest.Probe(77, 1))
		rdstest.Must(t, err)
		rdstest.Eventually(t, "the statement", func() bool { return rdstest.Counter(t, n, "recv_ping") > pings })
		rdstest.Must(t, c.Close())
		rdstest.Eventually(t, "the peer to end", func() bool { return rdstest.Peers(n) == 0 })
		n.Sequences.mu.Lock()
		records := n.Sequences.pairs[addressPair{to.Addr(), from}].records
		if len(records) != 1 || records[0].Generation != 77 || records[0].Next[0].Load() != h.Sequence+1 || n.Sequences.records != 1 {
			t.Errorf("%d records of the stranger, %d in all, the first of %+v", len(records), n.Sequences.records, records[0])
		}
		n.Sequences.mu.Unlock()
	}
}
