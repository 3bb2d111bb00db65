//go:build !live

package node

import (
	"runtime"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

const heldPort = 5000

// heldBack has the send buffer of a node's socket hold n bytes back for port 5000 of a host
// that is up. It returns that socket, its share of the host, and two sockets that receive, at
// the host and at another one.
func heldBack(t *testing.T, buffer, n int) (s *socket.Socket, h *share, far, up *socket.Socket) {
	t.Helper()
	l := newMemLab(t)
	s = l.bindOne(config.Node{SendBuffer: buffer})
	s.SetLinger(0)
	far, up = l.bindOne(config.Node{}), l.bindOne(config.Node{})
	rdstest.Promptly(t, s, up, nil)
	rdstest.Promptly(t, s, far, nil)
	p := halfOf(s).last.Load()
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
func queueHeld(t *testing.T, h *share, n int) {
	t.Helper()
	h.p.Lock()
	err := h.p.enqueueLocked(h.s, &conn.Message{Sport: h.s.Port, Dport: heldPort, Account: &h.Account, Payload: make([]byte, n), Admitted: true})
	h.p.Commit()
	rdstest.Must(t, err)
}

// sending starts a Send and waits until n senders wait for room.
func sending(t *testing.T, s, to *socket.Socket, n int32) chan error {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- s.Send(rdstest.Background(t), to.LocalAddrPort(), make([]byte, 10)) }()
	for halfOf(s).Writers.N.Load() != n { // virtual time stands still while the caller holds a lock
		runtime.Gosched()
	}
	return sent
}

// A socket of whose send buffer full ports hold one and a half limits back sends to the other
// ports of their host and to other hosts, each message when the one before it has arrived.
func TestFullPortsWithAllOfTheBuffer(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		const limit = 100_000
		s, _, far, up := heldBack(t, limit, limit+limit/2)
		if s.Poll()&datagram.PollOut == 0 {
			t.Error("no POLLOUT")
		}
		rdstest.GoesOn(t, limit, s, far, up)
		rdstest.Eventually(t, "acknowledgements", func() bool { return halfOf(s).Account.Messages() == 1 })
	})
}

// Full ports of a host leave its other ports half of what is left of one and a quarter send
// buffers, and other hosts the next quarter.
func TestFullPortsLeaveOtherPortsAShare(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
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
		other := h.s.Share(h.s.last.Load())
		other.Admit(limit/2 - limit/8)
		rdstest.WantErr(t, "to another host, with all of one and a half limits taken", try(up), datagram.ErrWouldBlock)
		first := sending(t, s, far, 1)
		second := sending(t, s, up, 2)
		other.Refund(1, 1)
		h.s.roomed() // Refund made room for the other host alone
		rdstest.NoError(t, <-second)
		h.Refund(limit/8, 2)
		other.Refund(limit/2-limit/8-1, 0)
		h.s.roomed()
		rdstest.NoError(t, <-first)
	})
}

// Messages that are held back are room for other messages at once, whether they were queued
// when the port filled up or come later: senders that wait hear of it.
func TestSendersHearOfMessagesHeldBack(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		const limit = 100_000
		s, h, _, up := heldBack(t, limit, 0)
		h.Admit(limit) // taken from an application, and not queued yet
		sent := sending(t, s, up, 1)
		queueHeld(t, h, limit)
		if err := <-sent; err != nil {
			t.Errorf("messages that came later: %v", err)
		}

		s, h, _, up = heldBack(t, limit, 0)
		p := h.p
		p.Lock() // nothing of p is transmitted
		p.Core.Hold([]uint16{heldPort}, false)
		h.Admit(limit)
		err := p.enqueueLocked(h.s, &conn.Message{Sport: h.s.Port, Dport: heldPort, Account: &h.Account, Payload: make([]byte, limit)})
		rdstest.Must(t, err)
		sent = sending(t, s, up, 1)
		p.Core.Hold([]uint16{heldPort}, true)
		p.Commit()
		if err := <-sent; err != nil {
			t.Errorf("messages that were queued: %v", err)
		}
	})
}
