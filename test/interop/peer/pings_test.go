//go:build !live

package peer

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
)

// busyHost is a stack whose receivers take everything, and send their congestion map only
// when they are pinged: as Linux, whose thread for maps and pongs gets no turn before.
type busyHost struct{ Stack }

type busySocket struct {
	Socket
	taken, known atomic.Int64 // messages taken, and how many of them the last map tells of
	pongs        chan netip.AddrPort
}

// busyLimit is how many messages a receiver holds before its port is congested.
const busyLimit = 32

func (h busyHost) Bind(local netip.AddrPort, send, receive int) (Socket, error) {
	s, err := h.Stack.Bind(local, send, receive)
	return &busySocket{Socket: s, pongs: make(chan netip.AddrPort, 1)}, err
}

func (s *busySocket) TrySend(netip.AddrPort, []byte) error {
	if s.known.Load() > busyLimit {
		return syscall.ENOBUFS
	}
	s.taken.Add(1)
	return nil
}

func (s *busySocket) Send(_ context.Context, to netip.AddrPort, _ []byte) error {
	if to.Port() != 0 { // the receiver reads again
		s.taken.Store(0)
		s.known.Store(0)
		return nil
	}
	s.known.Store(s.taken.Load())
	s.pongs <- to
	return nil
}

func (s *busySocket) Recv(ctx context.Context, _ []byte) (int, netip.AddrPort, error) {
	select {
	case from := <-s.pongs:
		return 0, from, nil
	case <-ctx.Done():
		return 0, netip.AddrPort{}, ctx.Err()
	}
}

// TestPingsWaitForTheMap shows that a sender that pings meets the refusal of a receiver whose
// map is late, which one that does not ping never meets.
func TestPingsWaitForTheMap(t *testing.T) {
	for _, want := range []struct{ every, congested, pings int }{{0, 0, 0}, {10, 1, 4}, {64, 1, 1}} {
		t.Run(fmt.Sprintf("every %d", want.every), func(t *testing.T) {
			c := startOn(t, busyHost{&memory{make(map[netip.AddrPort]*memSocket)}})
			args := SendArgs{Socket: bind(t, c, addrA), To: addrB, Stream: Stream{Count: 70, Size: 8}, Try: true, PingEvery: want.every}
			var got SendResult
			must(t, c.Call(t.Context(), OpSend, args, &got))
			if got.Messages != 70 || got.Congested != want.congested || got.Pings != want.pings {
				t.Errorf("%+v, want %d refusals and %d pings", got, want.congested, want.pings)
			}
		})
	}
}
