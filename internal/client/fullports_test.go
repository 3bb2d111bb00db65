package client

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/node"
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
	rdstest.MustSet(t, free.SetReadBuffer(4<<20))
	return free
}

// held is what a socket's send buffer has.
func held(s *socket.Socket) int {
	if halfOf(s) != nil {
		return halfOf(s).Account.Bytes()
	}
	return clientHalfOf(s).Half.Load().Account.Bytes()
}

// What full ports of a host that is up hold back is bounded by the send buffer, however many
// ports they are, and keeps no sender from other hosts or from other ports of that host,
// though the full ports never receive.
func TestFullPortsOfAHostAreBounded(t *testing.T) {
	t.Parallel()
	const buffer, size, ports = 2 << 20, 1000, 20
	eachSender(t, config.Node{SendBuffer: buffer}, config.Service{}, func(t *testing.T, l *lab, p provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		free := fillPorts(t, l, s, ports, size)
		bytes := held(s)
		t.Logf("%d bytes", bytes)
		if most := buffer + buffer/2 + size; bytes > most || bytes < buffer/2 {
			t.Errorf("%d bytes are accepted for full ports, at most %d", bytes, most)
		}
		goesOn(t, s, up, free)
		rdstest.Eventually(t, "POLLOUT", func() bool { return s.Poll()&datagram.PollOut != 0 })
	})
}

// goesOn sends to sockets that receive, from two goroutines for each, more than a send buffer.
func goesOn(t *testing.T, s *socket.Socket, to ...*socket.Socket) {
	t.Helper()
	const messages, senders = 300, 2
	limit, _ := s.Buffers()
	var wg sync.WaitGroup
	for _, d := range to {
		for i := range senders {
			wg.Go(func() {
				b := make([]byte, limit/messages)
				for k := range messages {
					binary.BigEndian.PutUint32(b, uint32(i<<16|k))
					if err := s.Send(rdstest.Background(t), d.LocalAddrPort(), b); err != nil {
						t.Errorf("message %d to %v: %v", k, d.LocalAddrPort(), err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			var next [senders]uint32
			for range senders * messages {
				m, err := d.Recv(rdstest.Background(t))
				if err != nil {
					t.Errorf("at %v, after %v: %v", d.LocalAddrPort(), next, err)
					return
				}
				n := binary.BigEndian.Uint32(m.Data)
				if i := n >> 16; n&0xffff != next[i] {
					t.Errorf("message %d instead of %d", n&0xffff, next[i])
				} else {
					next[i]++
				}
				m.Release()
			}
		})
	}
	wg.Wait()
}

const heldPort = 5000

// heldBack has the send buffer of a node's socket hold n bytes back for port 5000 of a host
// that is up. It returns that socket, its share of the host, and two sockets that receive, at
// the host and at another one.
func heldBack(t *testing.T, buffer, n int) (s *socket.Socket, h *node.Share, far, up *socket.Socket) {
	t.Helper()
	l := newLab(t)
	s = l.bindOne(config.Node{SendBuffer: buffer})
	s.SetLinger(0)
	far, up = l.bindOne(config.Node{}), l.bindOne(config.Node{})
	rdstest.Promptly(t, s, up, nil)
	rdstest.Promptly(t, s, far, nil)
	p := halfOf(s).Last.Load()
	h = halfOf(s).Share(p)
	rdstest.Eventually(t, "acknowledgements", func() bool { return halfOf(s).Account.Messages() == 0 })
	p.Lock()
	p.Core.Hold([]uint16{heldPort}, true)
	p.Commit()
	h.Admit(n)
	queueHeld(t, h, n)
	return s, h, far, up
}

// queueHeld queues a message of n bytes, which the send buffer has already, for port 5000.
func queueHeld(t *testing.T, h *node.Share, n int) {
	t.Helper()
	h.P.Lock()
	err := h.P.EnqueueLocked(h.S, &conn.Message{Sport: h.S.Port, Dport: heldPort, Account: &h.Account, Payload: make([]byte, n), Admitted: true})
	h.P.Commit()
	if err != nil {
		t.Fatal(err)
	}
}

// sending starts a Send and waits until n senders wait for room.
func sending(t *testing.T, s, to *socket.Socket, n int32) chan error {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(rdstest.Background(t), to.LocalAddrPort(), make([]byte, 10)) }()
	rdstest.Eventually(t, "the sender to wait", func() bool { return halfOf(s).Writers.N.Load() == n })
	return sent
}

// A socket of whose send buffer full ports hold one and a half limits back sends to the other
// ports of their host and to other hosts, each message when the one before it has arrived.
func TestFullPortsWithAllOfTheBuffer(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	s, _, far, up := heldBack(t, limit, limit+limit/2)
	if s.Poll()&datagram.PollOut == 0 {
		t.Error("no POLLOUT")
	}
	goesOn(t, s, far, up)
	rdstest.Eventually(t, "acknowledgements", func() bool { return halfOf(s).Account.Messages() == 1 })
}

// Full ports of a host leave its other ports half of what is left of one and a quarter send
// buffers, and other hosts the next quarter.
func TestFullPortsLeaveOtherPortsAShare(t *testing.T) {
	t.Parallel()
	const limit = 80_000
	s, h, far, up := heldBack(t, limit, limit)
	try := func(to *socket.Socket) error { return s.TrySend(to.LocalAddrPort(), nil) }
	h.Admit(limit/8 - 1)
	if err := try(far); err != nil {
		t.Errorf("to another port, with less than an eighth under way: %v", err)
	}
	h.Admit(1)
	rdstest.WantErr(t, "to another port, with an eighth under way", try(far), datagram.ErrWouldBlock)
	if err := try(up); err != nil {
		t.Errorf("to another host: %v", err)
	}
	other := h.S.Share(h.S.Last.Load())
	other.Admit(limit/2 - limit/8)
	rdstest.WantErr(t, "to another host, with all of one and a half limits taken", try(up), datagram.ErrWouldBlock)
	first := sending(t, s, far, 1)
	second := sending(t, s, up, 2)
	other.Refund(1, 1)
	h.S.Roomed() // Refund made room for the other host alone
	if err := <-second; err != nil {
		t.Error(err)
	}
	h.Refund(limit/8, 2)
	other.Refund(limit/2-limit/8-1, 0)
	h.S.Roomed()
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Messages that are held back are room for other messages at once, whether they were queued
// when the port filled up or come later: senders that wait hear of it.
func TestSendersHearOfMessagesHeldBack(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	s, h, _, up := heldBack(t, limit, 0)
	h.Admit(limit) // taken from an application, and not queued yet
	sent := sending(t, s, up, 1)
	queueHeld(t, h, limit)
	if err := <-sent; err != nil {
		t.Errorf("messages that came later: %v", err)
	}

	s, h, _, up = heldBack(t, limit, 0)
	p := h.P
	p.Lock() // nothing of p is transmitted
	p.Core.Hold([]uint16{heldPort}, false)
	h.Admit(limit)
	err := p.EnqueueLocked(h.S, &conn.Message{Sport: h.S.Port, Dport: heldPort, Account: &h.Account, Payload: make([]byte, limit)})
	if err != nil {
		t.Fatal(err)
	}
	sent = sending(t, s, up, 1)
	p.Core.Hold([]uint16{heldPort}, true)
	p.Commit()
	if err := <-sent; err != nil {
		t.Errorf("messages that were queued: %v", err)
	}
}

// What a daemon takes from an application for a port that is full by then is held back: the
// application hears of that without anything else happening.
func TestApplicationHearsOfMessagesHeldBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	near := l.node(config.Node{})
	_, path := serving(t, near, config.Service{})
	s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	s.SetLinger(0)
	far := l.bindOne(config.Node{})
	rdstest.Promptly(t, s, far, nil)
	var p *node.Peer
	near.EachPeer(func(q *node.Peer) { p = q })
	const size = 1000
	p.Lock()
	sent := make(chan error)
	go func() { // the application holds no locks of the daemon
		sent <- s.Send(rdstest.Background(t), netip.AddrPortFrom(far.LocalAddrPort().Addr(), heldPort), make([]byte, size))
	}()
	err := <-sent
	p.Core.Hold([]uint16{heldPort}, true)
	p.Commit()
	rdstest.MustSet(t, err)
	h := clientHalfOf(s).Half.Load()
	rdstest.Eventually(t, "the bytes held back", func() bool { return h.heldBytes() == size })

	// A session whose budget and a half is held back submits nothing: the daemon would not take it.
	b := &h.T.Budget
	n := b.Account.Limit() + b.Account.Limit()/2
	b.Account.Admit(n)
	defer b.Account.Refund(n, 1)
	h.T.Seg.Held().Store(uint64(2 * n))
	rdstest.WantErr(t, "with the budget held back", s.TrySend(far.LocalAddrPort(), nil), datagram.ErrWouldBlock)
	if s.Poll()&datagram.PollOut != 0 {
		t.Error("POLLOUT with the budget held back")
	}
}
