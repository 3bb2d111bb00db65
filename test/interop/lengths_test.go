//go:build interop

package interop

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// testLengths has an rdsd that takes messages of up to 64 KiB talk to a guest, which knows nothing of limits
// and reads in our probes that there is one. What the guest sends beyond is read, dropped and counted, alone:
// messages of other sockets, on the same connection, arrive once and in order, and ours of 1 MiB reach the guest.
func testLengths(t *testing.T, l *lab, guest *process) {
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	node := l.startLimited(t, "10.77.31.1", "max_message = 65536\n")
	defer func() { node.show(t); guest.show(t) }()
	pair := func(from, to *process) flow {
		return flow{from: from.bind(t, bufferSize, 0), to: to.bind(t, 0, bufferSize)}
	}
	in, out, long := pair(guest, node), pair(node, guest), pair(guest, node)
	warm(t, in)
	conns := node.connections(t, ctx, guest)
	const tooLong = 40
	in.stream, out.stream, in.rate = peer.Stream{Seed: 21, Count: 3000}, peer.Stream{Seed: 22, Count: 3000, Large: 10}, 3000
	long.stream = peer.Stream{Seed: 23, Count: tooLong, Size: 200_000}
	send, err := long.startSend()
	must(t, err)
	must(t, exchange(ctx, []flow{in, out}))
	var sent peer.SendResult
	must(t, send.Wait(ctx, &sent))
	var dropped uint64
	err = poll(ctx, func() (bool, error) {
		dropped, err = node.counter(ctx, "recv_drop_too_long")
		return dropped >= tooLong, err
	})
	if err != nil || dropped != tooLong || sent.Messages != tooLong {
		t.Errorf("%d messages of %d are dropped, %v", dropped, sent.Messages, err)
	}
	long.stream = peer.Stream{Seed: 24, Count: 100, Size: 65536}
	must(t, exchange(ctx, []flow{long}))
	node.kept(t, ctx, guest, conns)
	log, err := os.ReadFile(node.daemon.log)
	must(t, err)
	if n := bytes.Count(log, []byte("longer than max_message")); n != 1 {
		t.Errorf("%d lines of the log are about %d messages", n, tooLong)
	}
}
