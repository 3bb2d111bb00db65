//go:build live

package client

import (
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// fillPorts sends to ports of a host that does not receive, as many messages of size bytes as
// are taken, and returns one more port of the host, whose buffer takes all.
func fillPorts(t *testing.T, l *lab, s *socket.Socket, ports, size int) (free *socket.Socket) {
	t.Helper()
	limit, _ := s.Buffers()
	out := make([]datagram.Outgoing, limit/size)
	n := l.node(config.Node{ReceiveBuffer: 20 * size, ReceiveOverrun: 20 * size})
	first := l.bind(n)
	for i := range uint16(ports) {
		to := first
		if i > 0 {
			to = l.bind(n, rdstest.AddrOf(first.LocalAddrPort().Addr(), 5000+i))
		}
		for k := range out {
			out[k] = datagram.Outgoing{To: to.LocalAddrPort(), Data: rdstest.Payload(uint64(k), size)}
		}
		var err error
		for rdstest.Holds(20*time.Millisecond, func() bool { // until nothing is taken for a while
			var n int
			n, err = s.TrySendBatch(out)
			return n > 0
		}) {
		}
		if !errors.Is(err, datagram.ErrCongested) && !errors.Is(err, datagram.ErrWouldBlock) {
			t.Fatal(err)
		}
	}
	free = l.bind(n, rdstest.AddrOf(first.LocalAddrPort().Addr(), 4999))
	rdstest.Must(t, free.SetReadBuffer(4<<20))
	return free
}

// held is what a socket's send buffer has.
func held(s *socket.Socket) int {
	if halfOf(s) != nil {
		return halfOf(s).Account.Bytes()
	}
	return clientHalfOf(s).half.Load().account.Bytes()
}

// What full ports of a host that is up hold back is bounded by the send buffer, however many
// ports they are, and keeps no sender from other hosts or from other ports of that host,
// though the full ports never receive.
func TestFullPortsOfAHostAreBounded(t *testing.T) {
	t.Parallel()
	const buffer, size, ports = 2 << 20, 1000, 20
	eachSender(t, overTCP, config.Node{SendBuffer: buffer}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		free := fillPorts(t, l, s, ports, size)
		bytes := held(s)
		t.Logf("%d bytes", bytes)
		if most := buffer + buffer/2 + size; bytes > most || bytes < buffer/2 {
			t.Errorf("%d bytes are accepted for full ports, at most %d", bytes, most)
		}
		limit, _ := s.Buffers()
		rdstest.GoesOn(t, limit, s, up, free)
		rdstest.Eventually(t, "POLLOUT", func() bool { return s.Poll()&datagram.PollOut != 0 })
	})
}
