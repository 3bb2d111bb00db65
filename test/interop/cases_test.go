//go:build interop

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// testPing is case (a): pings in both directions.
func testPing(t *testing.T, a, b *process) {
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		s := way[0].bind(t, 0, 0)
		for range 3 {
			d, err := s.ping(t.Context(), way[1].addr)
			must(t, err)
			t.Logf("%s pings %v: %v", s.name, way[1].addr, d)
		}
	}
}

// testMessages is case (b): 10,000 messages each way, in order, none lost or
// doubled.
func testMessages(t *testing.T, a, b *process, paths int) {
	nPairs := min(paths, 4) // so that several paths carry data
	flows := pairs(t, a, b, nPairs, bufferSize)
	for i := range flows {
		flows[i].stream = peer.Stream{Seed: uint64(100 * i), Count: 10_000 / nPairs, Large: 36 / nPairs}
	}
	start := time.Now()
	must(t, exchange(t.Context(), bothWays(flows)))
	t.Logf("20,000 messages in %v", time.Since(start).Round(time.Millisecond))
}

// testCongestion is case (d), in both directions: a receiver that does not
// read marks its port congested, the sender is refused with ENOBUFS and then
// waits, in a blocking send or for word from its congestion monitor; when the
// receiver reads again, all arrives.
func testCongestion(t *testing.T, a, b *process) {
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		t.Run("from "+way[0].name, func(t *testing.T) { congest(t, way[0], way[1], false) })
		t.Run("monitored from "+way[0].name, func(t *testing.T) { congest(t, way[0], way[1], true) })
	}
}

func congest(t *testing.T, from, to *process, monitor bool) {
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	const sendBuffer, receiveBuffer = 256 << 10, 64 << 10
	f := flow{from: from.bind(t, sendBuffer, 0), to: to.bind(t, 0, receiveBuffer), try: true, monitor: monitor}
	warm(t, f)
	// 5 MB: far more than both buffers hold.
	f.stream = peer.Stream{Seed: 4, Count: 2500, Size: 2048}
	// The send buffer does not bound what the receiver takes before its map arrives. Linux takes
	// and acknowledges messages in softirqs, and sends maps and pongs from one thread, krdsd
	// (net/rds/cong.c, rds_cong_queue_updates). In Linux 6.12, unlike 6.1, softirqs do not wait for
	// ksoftirqd, and on the guest's one slow processor krdsd may get no turn while messages keep
	// coming: all 5 MB were accepted within 0.2 s, and only then the map was sent. So the sender
	// pings: krdsd has sent the map when it sends the pong, because work is queued for krdsd in
	// the order of arrival. (The map may come on another TCP connection than the pong, a little
	// later.) 64 messages are twice what the receive buffer holds, and half of what
	// the send buffer holds.
	f.ping = 64
	send, err := f.startSend()
	must(t, err)
	var stuck peer.ProgressResult
	err = poll(ctx, func() (bool, error) {
		p, err := send.Progress(ctx)
		stuck = p
		return p.Congested > 0 || !p.Running, err
	})
	if err != nil || !stuck.Running {
		t.Fatalf("not congested: %+v, %v", stuck, err)
	}
	recv, err := f.startRecv()
	must(t, err)
	sent, err := running{f, send, recv}.wait(ctx)
	must(t, err)
	must(t, f.quiet(ctx))
	t.Logf("congested after %d messages and %d pings, %d refusals in all", stuck.Messages, sent.Pings, sent.Congested)
}
