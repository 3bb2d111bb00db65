//go:build !live

package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
)

func TestTelemetryOfPeerGoesOnWhenOneConnectionEnds(t *testing.T) {
	t.Parallel()
	connection := func(port uint16, n uint64, inodeAndCookie ...uint64) ebpf.Connection {
		id := append(inodeAndCookie, uint64(port), uint64(port))
		h := ebpf.Histogram{Sum: time.Duration(n) * time.Millisecond, Count: n}
		h.Buckets[19] = n
		return ebpf.Connection{Local: netip.MustParseAddrPort("10.0.0.1:16385"), RTTs: h, Waits: h, Inode: id[0], Cookie: id[1],
			Remote: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)}
	}
	m := &telemetryMetrics{}
	for _, step := range []struct {
		connections []ebpf.Connection
		want        uint64
	}{
		{[]ebpf.Connection{connection(1, 10), connection(2, 5)}, 15},
		{[]ebpf.Connection{connection(1, 12), connection(2, 5)}, 17},
		{[]ebpf.Connection{connection(2, 6)}, 18},                   // one has ended
		{[]ebpf.Connection{connection(2, 6), connection(3, 1)}, 19}, // one is new
		{[]ebpf.Connection{connection(2, 2), connection(3, 1)}, 21}, // telemetry was loaded anew
		{nil, 0},
		{[]ebpf.Connection{connection(2, 2, 0, 5)}, 2},   // not accepted yet
		{[]ebpf.Connection{connection(2, 7, 11, 5)}, 7},  // accepted
		{[]ebpf.Connection{connection(2, 8, 0, 5)}, 8},   // closed, and sends what is left
		{[]ebpf.Connection{connection(2, 9, 0, 6)}, 17},  // another one of the same ports, not accepted yet
		{[]ebpf.Connection{connection(2, 9, 12, 6)}, 17}, // accepted
	} {
		m.update(step.connections)
		var got, waits uint64
		for _, p := range m.peers {
			got, waits = p.rtts.Count, p.waits.Buckets[19]
		}
		if got != step.want || waits != step.want || len(m.peers) > 1 {
			t.Errorf("%d peers, %d round trips, %d waits, want %d", len(m.peers), got, waits, step.want)
		}
	}
}
