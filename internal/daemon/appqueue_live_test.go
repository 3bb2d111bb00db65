//go:build live

package daemon

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// queueLab is two hosts on XRC: a node that sends, and one that serves applications
// which have little memory.
type queueLab struct {
	*lab
	node *node.Node
	svc  *Service
	path string
}

func newQueueLab(t *testing.T, scfg config.Service) *queueLab {
	l := newLab(t)
	q := &queueLab{lab: l, node: l.node(config.Node{Wire: config.WireXRC})}
	// An application is full long before one of its sockets.
	_, q.svc, q.path = served(t, l, config.Node{Wire: config.WireXRC, ReceiveBuffer: 1 << 30}, scfg)
	return q
}

// session is what the service reports of the application with a queue of this number.
func (q *queueLab) session(queue uint32) (s info.Session) {
	for _, s = range q.svc.Sessions() {
		if s.Queue == queue {
			return s
		}
	}
	return info.Session{}
}

// Each application has a queue of its own on the one connection: after the first
// messages, which find out, those for its ports come by it, and those for the next
// owner of a port by that one's.
func TestApplicationsHaveQueues(t *testing.T) {
	t.Parallel()
	q := newQueueLab(t, config.Service{})
	ctx := rdstest.Background(t)
	from := q.bind(q.node)
	var socks []*socket.Socket
	clients := make([]*client.Client, 3)
	for i := range clients {
		clients[i] = dialed(t, q.path)
	}
	at := rdstest.AddrOf(rdstest.NewAddr(), 100)
	for i := range 6 {
		socks = append(socks, bound(t, clients[i%3], rdstest.AddrOf(at.Addr(), 100+uint16(i))))
	}
	settled := func(what string, socks []*socket.Socket) {
		t.Helper()
		rdstest.Eventually(t, what, func() bool {
			before := rdstest.Counter(q, q.svc.node, "recv_misplaced")
			for _, s := range socks {
				rdstest.Must(t, rdstest.Converse(ctx, from, s, 3))
			}
			return rdstest.Counter(q, q.svc.node, "recv_misplaced") == before
		})
	}
	settled("messages by the applications' queues", socks)
	if n := rdstest.Counter(q, q.svc.node, "recv_misplaced"); n < 6 {
		t.Errorf("%d messages came by another queue: those that find out are missing", n)
	}
	seen := map[uint32]bool{}
	for _, s := range q.svc.Sessions() {
		if s.Queue < 2 || seen[s.Queue] || s.NotReady || s.Backlog != 0 {
			t.Errorf("%+v", s)
		}
		seen[s.Queue] = true
	}
	// An application ends, and its ports go to others.
	rdstest.Must(t, clients[0].Close())
	next := []*socket.Socket{bound(t, clients[1], rdstest.AddrOf(at.Addr(), 100)), bound(t, dialed(t, q.path), rdstest.AddrOf(at.Addr(), 103))}
	settled("messages by the queues of the ports' next owners", append(next, socks[1], socks[2]))
	// And to a socket of the host itself.
	rdstest.Must(t, socks[1].Close())
	own := q.bind(q.svc.node, rdstest.AddrOf(at.Addr(), 101))
	settled("messages by the first queue", []*socket.Socket{own})
}

// An application that takes nothing is not ready when its backlog is full: the peer
// keeps what it has for it, nothing is dropped, the daemon's memory is bounded, and
// neither other applications nor other sockets of the sender's host notice. What was
// kept is delivered, in order, when the application goes on.
func TestStoppedApplicationIsNotReady(t *testing.T) {
	t.Parallel()
	const (
		backlog  = 512 << 10
		size     = 8 << 10
		inFlight = 24 << 20 // what TCP's buffers hold, and more
	)
	q := newQueueLab(t, config.Service{ReceiveArena: 1 << 20, ReceiveBacklog: backlog})
	ctx := rdstest.Background(t)
	at := rdstest.AddrOf(rdstest.NewAddr(), 100)
	stopped := bound(t, dialed(t, q.path), at)
	other := bound(t, dialed(t, q.path), rdstest.AddrOf(at.Addr(), 101))
	from := q.bind(q.node)
	beside := q.bind(q.node, rdstest.AddrOf(from.LocalAddrPort().Addr(), 5000)) // on the same connection
	rdstest.Must(t, from.SetWriteBuffer(1<<30))
	rdstest.Must(t, errors.Join(rdstest.Converse(ctx, from, stopped, 5), rdstest.Converse(ctx, beside, other, 5)))
	rdstest.Eventually(t, "the peer knows whose the port is", func() bool {
		before := rdstest.Counter(q, q.svc.node, "recv_misplaced")
		rdstest.Must(t, rdstest.Converse(ctx, from, stopped, 1))
		return rdstest.Counter(q, q.svc.node, "recv_misplaced") == before
	})
	accepted := uint32(0)
	data := make([]byte, size)
	rdstest.Eventually(t, "the peer knows that the application is not ready", func() bool {
		for range 1000 {
			binary.BigEndian.PutUint32(data, accepted)
			switch err := from.TrySend(at, data); {
			case err == nil:
				accepted++
			case errors.Is(err, datagram.ErrCongested):
				return true
			case !errors.Is(err, datagram.ErrWouldBlock): // that is the node's bound for what a peer has not taken
				t.Fatal(err)
			}
		}
		return false
	})
	queue := q.svc.Sessions()[0].Queue // the oldest
	// The others go on, with as much as they like.
	if err := rdstest.Converse(ctx, beside, other, 300); err != nil {
		t.Fatalf("beside a stopped application: %v", err)
	}
	s := q.session(queue)
	if !s.NotReady || s.Backlog < backlog || s.Backlog > backlog+inFlight {
		t.Errorf("%d bytes wait in the daemon, whose limit is %d: %+v", s.Backlog, backlog, s)
	}
	rdstest.WantErr(t, "a send to an application that is not ready", beside.TrySend(at, nil), datagram.ErrCongested)
	for i := range accepted {
		m, err := stopped.Recv(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if len(m.Data) != size || binary.BigEndian.Uint32(m.Data) != i {
			t.Fatalf("message %d of %d: %v", i, accepted, &m)
		}
		m.Release()
	}
	rdstest.Eventually(t, "the application's queue is ready", func() bool { s := q.session(queue); return !s.NotReady && s.Backlog == 0 })
	rdstest.WantCounter(q, q.svc.node, "recv_drop_overrun", 0)
	rdstest.Must(t, rdstest.Converse(ctx, from, stopped, 5))
}

// What is held for an application that ends while it is not ready goes on, and nothing
// waits for it for ever; so does what is held when the connection is lost.
func TestNotReadyEnds(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the application ends", "the connection ends"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			q := newQueueLab(t, config.Service{ReceiveArena: 1 << 20, ReceiveBacklog: 256 << 10})
			ctx := rdstest.Background(t)
			c := dialed(t, q.path)
			at := rdstest.AddrOf(rdstest.NewAddr(), 100)
			stopped := bound(t, c, at)
			from := q.bind(q.node)
			rdstest.Must(t, from.SetWriteBuffer(1<<30))
			rdstest.Must(t, rdstest.Converse(ctx, from, stopped, 5))
			accepted := 0
			for end := time.Now().Add(rdstest.Patience); ; {
				err := from.TrySend(at, rdstest.Payload(uint64(accepted), 8<<10))
				if err == nil {
					accepted++
					continue
				}
				if q.svc.Sessions()[0].NotReady {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("not full after %d messages: %v", accepted, err)
				}
			}
			if how == "the application ends" {
				rdstest.Must(t, c.Close())
				rdstest.Eventually(t, "nothing waits", func() bool { i, _ := q.node.Info(); return len(i.SendQueue)+len(i.Retransmit) == 0 })
				again := bound(t, dialed(t, q.path), at)
				rdstest.Must(t, rdstest.Converse(ctx, from, again, 50))
				return
			}
			q.node.EachPeer(func(p *node.Peer) {
				p.Lock()
				l := p.Link(0)
				p.Unlock()
				if l != nil && p.Remote == at.Addr() {
					l.Close(1)
				}
			})
			rdstest.ExpectNumbers(t, stopped, accepted)
			rdstest.Must(t, rdstest.Converse(ctx, from, stopped, 5))
		})
	}
}
