//go:build !live

package xrc

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// sorting is a handler that notes the ports of messages with the queue that they came
// by, and what is held.
type sorting struct {
	transporttest.Simple
	mu    sync.Mutex
	queue uint32         // guarded by mu
	names map[uint32]int // guarded by mu: what a test calls its queues; by number
	news  []string       // guarded by mu
	over  chan struct{}
}

func newSorting() *sorting {
	return &sorting{queue: transport.FirstQueue, over: make(chan struct{})}
}

func (s *sorting) note(format string, args ...any) {
	s.news = append(s.news, fmt.Sprintf(format, args...))
}

func (s *sorting) Message(h *wire.Header, _ []byte, owned *buf.Buf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := s.names[s.queue]
	if !ok {
		name = int(s.queue)
	}
	s.note("%d by %d", h.Dport, name)
	if owned != nil {
		owned.Release()
	}
}

func (s *sorting) Closed(error, uint64) { close(s.over) }

func (s *sorting) Queue(n uint32) {
	s.mu.Lock()
	s.queue = n
	s.mu.Unlock()
}

func (s *sorting) Hold(ports []uint16, on bool) {
	s.mu.Lock()
	s.note("%d held: %v", ports, on)
	s.mu.Unlock()
}

// await waits until the news are these, and forgets them.
func (s *sorting) await(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q", want), when(&s.mu, func() bool { return len(s.news) >= len(want) }))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.news, want) {
		t.Fatalf("%q, want %q", s.news, want)
	}
	s.news = nil
}

// queued are the two ends of a link, and the transport of the second.
func queued(t *testing.T) (a, b transport.Link, ha, hb *sorting, tb *Transport) {
	t.Helper()
	ta := newTransport(t, Options{})
	tb = newTransport(t, Options{})
	at := [2]netip.Addr{newAddr(), newAddr()}
	if at[1].Less(at[0]) { // the side with the smaller address connects
		at[0], at[1] = at[1], at[0]
	}
	accepted := make(chan transport.Link, 1)
	must(t, tb.Listen(at[1], func(l transport.Link) { accepted <- l }))
	l, err := ta.Dial(within(t), at[0], at[1], 0)
	must(t, err)
	ha, hb = newSorting(), newSorting()
	must(t, l.Start(ha))
	b = <-accepted
	must(t, b.Start(hb))
	return l, b, ha, hb, tb
}

// messages are some to these ports, in one write.
func messages(ports ...uint16) (frames []transport.Frame) {
	for i, p := range ports {
		head := (&wire.Header{Sequence: uint64(i), Length: 100, Sport: 9, Dport: p}).AppendTo(nil)
		frames = append(frames, transport.Frame{Head: head, Body: make([]byte, 100), Port: p})
	}
	return frames
}

// Messages come by the queues that the peer has told of, the others by the first, in
// the order in which they were written; what is not ready is held.
func TestMessagesComeByTheirQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, ha, hb, tb := queued(t)
		var queues [4]*Queue
		var numbers [4]uint32
		names := make(map[uint32]int)
		for i := 2; i < 4; i++ {
			q, err := tb.NewQueue("test")
			must(t, err)
			defer q.Close()
			queues[i], numbers[i], names[q.Number()] = q, q.Number(), i
		}
		hb.mu.Lock()
		hb.names = names
		hb.mu.Unlock()
		wantRegistered(t, tb, 1)
		write := func(ports ...uint16) {
			t.Helper()
			frames := messages(ports...)
			eventually(t, "room", func() bool {
				n, err := a.Send(frames)
				if err != nil || n.Frames != 0 && n.Frames != len(frames) || n.Begun() {
					t.Fatalf("%+v of %d, %v", n, len(frames), err)
				}
				return n.Frames == len(frames)
			})
		}
		write(10, 20)
		hb.await(t, "10 by 1", "20 by 1")
		if !b.Home(10, numbers[2]) || !b.Home(20, numbers[3]) || !b.Home(30, numbers[3]) {
			t.Fatal("a link that is up tells nothing")
		}
		wantRegistered(t, tb, 3)
		queues[2].SetReady(false)
		ha.await(t, "[10] held: true") // what is told of two queues at once has no order
		queues[3].SetReady(false)
		ha.await(t, "[20 30] held: true")
		queues[3].SetReady(true)
		ha.await(t, "[20 30] held: false")
		write(10, 20, 30, 20, 40, 10, 10)
		hb.await(t, "10 by 2", "20 by 3", "30 by 3", "20 by 3", "40 by 1", "10 by 2", "10 by 2")
		if !b.Home(10, numbers[3]) {
			t.Fatal("not told")
		}
		ha.await(t, "[10] held: false")
		queues[3].SetReady(false)
		ha.await(t, "[10 20 30] held: true")
		// The peer must have heard of the end before it writes: what is told has no order
		// but that of the calls for one queue.
		queues[3].Close()
		wantRegistered(t, tb, 2)
		ha.await(t, "[10 20 30] held: false")
		queues[2].SetReady(true)
		if !b.Home(50, numbers[2]) {
			t.Fatal("not told")
		}
		queues[2].SetReady(false)
		ha.await(t, "[50] held: true")
		write(10, 20, 50)
		hb.await(t, "10 by 1", "20 by 1", "50 by 2")
		if b.Home(1, 0) || b.Home(1, numbers[3]) {
			t.Error("a queue that cannot be was told of")
		}
		eventually(t, "acknowledgements", func() bool { return a.Acked() == a.Stats().Written })
		a.Close(transport.Abort)
		<-ha.over
		<-hb.over
		if a.Home(1, transport.FirstQueue) || b.Home(1, numbers[2]) {
			t.Error("a link that has ended tells")
		}
	})
}

// wantRegistered waits until so many sessions are registered with the one target of RDS.
func wantRegistered(t *testing.T, tr *Transport, want int) {
	t.Helper()
	tr.mu.Lock()
	var p *path
	for _, x := range tr.peers {
		p = x.paths[0]
	}
	tr.mu.Unlock()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if got := target.Info().Registered; got != want {
		t.Errorf("%d sessions are registered with the target, want %d", got, want)
	}
}
