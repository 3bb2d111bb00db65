package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// muxSocket is a client socket: one goroutine that keeps Depth requests
// outstanding and goes round the server's sockets.
type muxSocket struct {
	*loop
	w     *Work
	dests []netip.AddrPort
	next  int       // index of the next destination
	turn  int       // requests made
	v     *verifier // Stress
	fault Fault     // damage yet to be done
}

func (s *sender) newMuxSocket(i, dests int) *muxSocket {
	return &muxSocket{loop: s.newLoop(newSmallHist()), w: s.c.work, dests: s.c.addrs, next: i % dests}
}

// faultAfter is the request that is damaged: late enough to be in the middle.
const faultAfter = 20

// destination is the index of the next destination.
func (m *muxSocket) destination(n int) (i int) {
	i = m.next
	if m.next++; m.next == n {
		m.next = 0
	}
	return i
}

// request makes the next request to a socket, in b, and returns its part of b.
func (m *muxSocket) request(b []byte, to netip.AddrPort, now int64) []byte {
	b = b[:m.w.Size]
	if m.v != nil {
		b = b[:cap(b)][:m.w.Sizes[m.turn%len(m.w.Sizes)]]
		if m.fault == FaultSkip && m.turn >= faultAfter {
			m.v.skip(to)
			m.fault = FaultNone
		}
		m.v.fill(b, to, kindRequest)
		if m.fault == FaultCorrupt && m.turn >= faultAfter && len(b) > stressHeader {
			b[len(b)-1] ^= 1
			m.fault = FaultNone
		}
	}
	m.turn++
	putStamp(b, now)
	return b
}

// reply takes a reply to the request of this stamp.
func (m *muxSocket) reply(size int, stamp, now int64) error {
	if size != m.w.Reply {
		return fmt.Errorf("reply of %d bytes, not %d", size, m.w.Reply)
	}
	m.answered(stamp, now)
	return nil
}

// rdsPort is an RDS socket.
type rdsPort struct {
	m    *muxSocket
	s    *rds.Socket
	ms   []rds.Message
	out  []rds.Outgoing
	bufs [][]byte
}

func newRDSPort(m *muxSocket, s *rds.Socket) *rdsPort {
	n := m.w.Batch
	p := &rdsPort{m: m, s: s, ms: make([]rds.Message, n), out: make([]rds.Outgoing, n), bufs: make([][]byte, n)}
	for i := range p.bufs {
		p.bufs[i] = make([]byte, m.w.maxSize())
	}
	return p
}

func (p *rdsPort) ask(n int, now int64) (int, error) {
	for i := range n {
		to := p.m.dests[p.m.destination(len(p.m.dests))]
		p.out[i].To, p.out[i].Data = to, p.m.request(p.bufs[i], to, now)
	}
	_, err := p.s.SendBatch(context.Background(), p.out[:n])
	return n, err
}

func (p *rdsPort) answers() (int, error) {
	n, err := p.s.RecvBatch(context.Background(), p.ms)
	now := clock()
	for i := range p.ms[:n] {
		m := &p.ms[i]
		var e error
		if p.m.v != nil {
			e = p.m.v.check(m.From, m.Data)
		}
		if e == nil {
			e = p.m.reply(len(m.Data), stampOf(m.Data), now)
		}
		err = errors.Join(err, e)
		m.Release()
	}
	return n, err
}

// flood sends until the socket is closed, to a peer that receives nothing: soon
// it is congested and each send waits.
func (p *rdsPort) flood() {
	out := rds.Outgoing{To: p.m.dests[0], Data: make([]byte, floodSize)}
	for p.s.SendMessage(context.Background(), &out) == nil {
	}
}

// startMux opens the client's sockets, the first of them beginning with destination
// first. With Stopped each has a destination of its own, the last of which take nothing.
func (s *sender) startMux(first int) error {
	w := s.c.work
	pairs := w.Stopped > 0 && w.Processes == 0
	for i := range w.Sockets {
		sock, end, err := s.c.bind()
		if err != nil {
			return err
		}
		s.open.add(end)
		m := s.newMuxSocket(first+i, len(s.c.addrs))
		p := newRDSPort(m, sock)
		m.port = p
		if w.Kind == Stress {
			m.v = newVerifier(sock.LocalAddrPort(), kindReply)
			if i == 0 {
				m.fault = w.Fault
			}
		}
		if pairs {
			m.dests, m.next = s.c.addrs[i:i+1], 0
		}
		switch {
		case !pairs || i < w.Sockets-w.Stopped:
			s.loops = append(s.loops, m.loop)
		case s.c.transport == RDS:
			s.bound.Go(p.flood)
		}
	}
	return nil
}

// meanBytes is the payload of a request and its reply, or an operation.
func (w *Work) meanBytes() int {
	if w.shape() == Latency || w.Kind == Fair {
		return 2 * w.Size
	}
	if len(w.Sizes) == 0 {
		return w.Size + w.Reply
	}
	sum := 0
	for _, n := range w.Sizes {
		sum += n
	}
	return sum/len(w.Sizes) + w.Reply
}
