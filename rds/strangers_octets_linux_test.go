package rds

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport/rdma"
)

// A hundred strangers on XRC deliver 64 KiB each to a bound port, begin messages of 1 MiB
// and do not go on, and no time limit ends them. A peer that the node has sent to has its
// long messages and its short ones delivered meanwhile, and so has a stranger its short ones.
func TestStrangersLeaveOctetsToPeers(t *testing.T) {
	t.Parallel()
	const strangers, messages = 100, 100
	l := newLab(t)
	var froms []netip.Addr
	for range strangers {
		froms = append(froms, newAddr())
	}
	cfg := Config{Wire: WireXRC, TCP: TCPConfig{Silence: time.Hour}}
	friend, newcomer := l.bind(l.node(cfg)), l.bind(l.node(cfg))
	s := l.bind(l.node(cfg))
	mustSend(t, s, friend.LocalAddrPort(), []byte("we talk"))
	expect(t, friend, "we talk")

	attack, err := rdma.New(rdma.Options{Port: l.port ^ 1, Overrun: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	message := func(seq uint64, length, have int) []byte {
		h := wire.Header{Sequence: seq, Length: uint32(length), Sport: 4000, Dport: s.LocalAddrPort().Port()}
		return append(h.AppendTo(nil), payload(seq, have)...)
	}
	var all sync.WaitGroup
	var mutes []*mute
	var begun atomic.Int64
	stop := make(chan struct{})
	for _, from := range froms {
		link, m := dialMute(ctx, t, attack, from, s.LocalAddrPort().Addr())
		mutes = append(mutes, m)
		all.Go(func() {
			const length = 64<<10 - wire.HeaderSize
			if m.write(link, stop, 64<<10, message(1, length, length)) && m.write(link, stop, wire.HeaderSize+1<<20, message(2, 1<<20, 100_000)) {
				begun.Add(1)
			}
		})
	}
	for range strangers {
		m, err := s.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	}
	// Without a bound on strangers those that have begun messages go on to be more meanwhile.
	eventually(t, "strangers begin messages", func() bool { return begun.Load() >= 10 })
	for i := range messages {
		for _, next := range []struct {
			from *Socket
			size int
		}{{friend, 1 << 20}, {friend, 8 << 10}, {newcomer, 8 << 10}} {
			mustSend(t, next.from, s.LocalAddrPort(), payload(uint64(i), next.size))
			take(ctx, t, s, next.from, uint64(i), next.size)
		}
	}
	if n := begun.Load(); n > 20 {
		t.Errorf("%d strangers have begun messages", n)
	}
	for i, m := range mutes {
		select {
		case <-m.closed:
			t.Errorf("the link of stranger %d has ended", i)
		default:
		}
	}
	close(stop)
	all.Wait()
	if err := attack.Close(); err != nil {
		t.Error(err)
	}
}

// take receives one message, which is from the socket from, and verifies it.
func take(ctx context.Context, t *testing.T, s, from *Socket, seq uint64, size int) {
	t.Helper()
	m, err := s.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if m.From != from.LocalAddrPort() || len(m.Data) != size {
		t.Fatalf("%d bytes of %v came, not %d of %v", len(m.Data), m.From, size, from.LocalAddrPort())
	}
	if err := verify(m.Data, seq); err != nil {
		t.Fatal(err)
	}
}
