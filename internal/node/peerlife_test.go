//go:build !live

package node

import (
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
)

// A peer that no socket here has sent to ends with its last link, whichever side has
// dialed. One that a socket has sent to stays as long as the socket.
func TestPeerEndsWithItsLink(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		for _, smaller := range []bool{true, false} {
			l := newMemLab(t)
			a, b := l.pair(config.Node{Wire: w})
			if !smaller {
				a, b = b, a
			}
			n := nodeOf(b)
			stranger := l.node(config.Node{Wire: w})
			s := l.bind(stranger)
			rdstest.MustSend(t, s, b.LocalAddrPort(), []byte("one"))
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("two"))
			rdstest.Drop(t, b, 2)
			rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("three"))
			rdstest.Expect(t, a, "three")
			if got := rdstest.Peers(n); got != 2 {
				t.Errorf("%d peers", got)
			}
			_ = stranger.Close()
			_ = nodeOf(a).Close()
			rdstest.Eventually(t, "the stranger to be forgotten", func() bool { return rdstest.Peers(n) == 1 })
			if p := halfOf(b).last.Load(); p == nil || p.Gone() {
				t.Error("the peer that a socket has sent to has ended")
			}
			if n.Sequences.records == 0 {
				t.Error("no receive sequence is kept")
			}
			rdstest.NoError(t, b.Close())
			rdstest.Eventually(t, "the last peer to be forgotten", func() bool { return rdstest.Peers(n) == 0 })
		}
	})
}

// Which wire serves a peer is known as long as its receive sequence is kept, whichever side
// dials; nothing is known of a peer that has delivered nothing.
func TestWireOfAPeerThatHasEnded(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, smaller := range []bool{true, false} {
			l := newMemLab(t)
			here, there := rdstest.NewAddr(), rdstest.NewAddr()
			if !smaller {
				here, there = there, here
			}
			n := l.node(config.Node{})
			b := l.bind(n, rdstest.AddrOf(here, 5))
			peer := l.node(config.Node{Wire: config.WireTCP})
			a := l.bind(peer, rdstest.AddrOf(there, 5))
			stranger := l.node(config.Node{Wire: config.WireTCP})
			far := rdstest.NewAddr()
			rdstest.Ping(t, l.bind(stranger, rdstest.AddrOf(far, 5)), here)
			rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("one"))
			rdstest.Expect(t, b, "one")
			_ = stranger.Close()
			_ = peer.Close()
			rdstest.Eventually(t, "the peers to be forgotten", func() bool { return rdstest.Peers(n) == 0 })
			wires := n.choice
			if by := wires.Chosen(here, there); by != "tcp" {
				t.Errorf("smaller %v: the peer is served by %q", smaller, by)
			}
			if by := wires.Chosen(here, far); by != "" {
				t.Errorf("smaller %v: a stranger is served by %q", smaller, by)
			}
		}
	})
}

// A ping is nothing that a peer stays for, nor is one that nobody is bound for; the answer
// to a ping is.
func TestStrangersLeaveNothing(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		l := newMemLab(t)
		n := l.node(config.Node{Wire: w})
		b := l.bind(n)
		for range 5 {
			stranger := l.node(config.Node{Wire: w})
			s := l.bind(stranger)
			rdstest.Ping(t, s, b.LocalAddrPort().Addr())
			rdstest.MustSend(t, s, rdstest.AddrOf(b.LocalAddrPort().Addr(), 9), []byte("for nobody"))
			rdstest.Ping(t, s, b.LocalAddrPort().Addr())
			_ = stranger.Close()
		}
		rdstest.Eventually(t, "the strangers to be forgotten", func() bool { return rdstest.Peers(n) == 0 })
		if records, _, _ := n.Sequences.size(); records != 0 {
			t.Errorf("%d sequences are kept of peers that have delivered nothing", records)
		}
	})
}

// One-way traffic to a receiver that never sends: its peer ends with each link, and what
// comes again on the next link is taken once. RDS_LONG=1 resets the links 1,000 times.
func TestOneWayTrafficIsTakenOnce(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, w config.Wire) {
		for _, smaller := range []bool{true, false} {
			l := newMemLab(t)
			from, to := l.pair(config.Node{Wire: w, ReconnectMin: time.Millisecond, ReconnectMax: 5 * time.Millisecond})
			if !smaller {
				from, to = to, from
			}
			resets := 40
			if os.Getenv("RDS_LONG") != "" {
				resets = 1000
			}
			oneWay(t, from, to, resets, func() bool { return nodeOf(to).Counters.peersEnded.Load() > 0 })
		}
	})
}

// The table keeps what is younger than sequenceTime whatever comes, and refuses strangers
// instead; older entries make room, the oldest first. A successor has the table, too.
func TestSequenceTable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	path := t.TempDir() + "/state"
	open := func() (*sequences, *statefile.File) {
		f, err := statefile.Open(path, func(err error) { t.Error(err) })
		rdstest.Must(t, err)
		s := &sequences{limit: 10}
		s.open(f, now)
		return s, f
	}
	table, file := open()
	local := rdstest.NewAddr()
	add := func() *sequence {
		t.Helper()
		var in recordsInUse
		s, r := table.keep(addressPair{local, rdstest.NewAddr()}, &in, 3, conn.Received{Generation: 7, Next: 100, Taken: 1}, now)
		if r.Next[3].Load() != 100 || r.Taken.Load() != 1 {
			t.Errorf("the record is %v", r)
		}
		table.end(s, conn.Legacy{}, [conn.MaxPaths]uint64{}, nil, now)
		return s
	}
	var all []*sequence
	for range 10 {
		if !table.reserve(now) {
			t.Fatal("the table is full too soon")
		}
		all = append(all, add())
		table.unreserve()
		now = now.Add(time.Second)
	}
	if table.reserve(now) {
		t.Error("a full table takes a stranger")
	}
	now = all[0].ended.Add(sequenceTime)
	if !table.reserve(now) {
		t.Error("an old entry does not make room")
	}
	if s, _ := table.begin(local, all[0].remote); s != nil {
		t.Error("the oldest entry is still there")
	}
	if s, _ := table.begin(local, all[1].remote); s == nil || table.received(s, 3)[0].Next != 100 {
		t.Error("a young entry is forgotten")
	}
	if table.reserve(all[1].ended.Add(2*sequenceTime)) && table.pairs[all[1].addressPair] == nil {
		t.Error("the entry of a peer that is back has made room")
	}
	// An impostor's generations do not take the place of the honest peer's.
	var in recordsInUse
	honest := all[5]
	honest.records[0].Taken.Store(1000)
	for g := range uint32(20) {
		table.keep(honest.addressPair, &in, 0, conn.Received{Generation: 100 + g, Next: 1, Taken: 1}, now)
		table.use(honest, &in, 0, 7, now)
	}
	if i := honest.indexLocked(7); i < 0 || honest.records[i].Next[3].Load() != 100 || len(honest.records) > 4 {
		t.Errorf("the record is %d of %d", i, len(honest.records))
	}
	records, _, _ := table.size()
	file.Close()
	table, file = open()
	defer file.Close()
	s, _ := table.begin(local, honest.remote)
	if s == nil || len(table.received(s, 3)) != 1 || table.received(s, 3)[0].Generation != 7 {
		t.Error("the successor has no sequence")
	}
	if n, _, _ := table.size(); n > records || n == 0 {
		t.Errorf("the successor has %d records, not %d", n, records)
	}
}

// What a peer has delivered on a link that ended before it stated its generation is not taken
// from it again when it has ended with that link. An impostor had the path before, so that
// the generation by which it was counted is not the peer's.
func TestWhatCameWithoutAGenerationOutlivesThePeer(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{Wire: config.WireTCP})
		at, from := l.bind(n).LocalAddrPort().Addr(), rdstest.NewAddr()
		const path = 3
		make := func() *Peer {
			p, err := n.PeerByKey(n.Local(at), PeerKey{Local: at, Remote: from})
			rdstest.Must(t, err)
			return p
		}
		h := wire.Header{Sequence: uint64(time.Now().UnixNano()), Flags: wire.FlagRetransmitted}
		p := make()
		in := p.Inbound(path)
		in.Begin()
		in.State(100)
		in.Begin()
		s, record := n.Sequences.keep(addressPair{at, from}, &p.records, path, conn.Received{Generation: in.Generation()}, time.Now())
		p.sequence.Store(s)
		if !in.Accept(&h) {
			t.Error("the first message is not taken")
		}
		in.Took(1)
		record.Taken.Add(1)
		record.Next[path].Store(in.Next())
		p.Release()
		if rdstest.Peers(n) != 0 {
			t.Fatal("the peer has not ended")
		}
		p = make()
		defer p.Release()
		in = p.Inbound(path)
		in.Begin()
		in.State(7)
		if in.Accept(&h) {
			t.Error("the message is taken again")
		}
		if h.Sequence++; !in.Accept(&h) {
			t.Error("the next message is not taken")
		}
	})
}
