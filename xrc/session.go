package xrc

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/xrc/objects"
)

// Host is where the objects are: a daemon that the process is attached to, or a node in the process.
type Host interface {
	Call(ctx context.Context, c *ipc.XRCCall, files ...*os.File) (*ipc.XRCReply, error)
	Alloc(n int) (*datagram.Memory, uint32, error)
	Wake()
	Watch(object uint32, q *socket.WaitQueue)
	Wait(ctx context.Context, w *socket.Waiter) error
	Gone() <-chan struct{}
	Err() error
	Close()
}

// Session is what a process has of XRC.
type Session struct {
	host  Host
	posts struct {
		mu   sync.Mutex
		ring *ipc.Queue // guarded by mu
		mem  *datagram.Memory
	}

	mu     sync.Mutex
	live   map[objects.Ref]struct{} // guarded by mu: objects that hear of the daemon's end
	fatal  []objects.Event          // guarded by mu: their events that nobody has read
	ended  bool                     // guarded by mu: fatal was made
	all    map[uint32]ender         // guarded by mu: objects by number
	closed bool                     // guarded by mu
	kept   []*datagram.Memory       // guarded by mu: memory that is in use until the session ends
}

// ender is an object that the end of the session ends.
type ender interface{ abandon() }

// maxPosts is how many queues may have been posted to that the daemon has not looked at.
const maxPosts = 1 << 12

// Open begins a session.
func Open(ctx context.Context, h Host) (*Session, error) {
	s := &Session{host: h, live: make(map[objects.Ref]struct{}), all: make(map[uint32]ender)}
	ring, mem, at, err := s.queue(work.PostSize, maxPosts, true)
	if err != nil {
		h.Close()
		return nil, err
	}
	s.posts.ring, s.posts.mem = ring, mem
	if _, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCPosts, Offset: at, Entries: maxPosts}); err != nil {
		mem.Release()
		h.Close()
		return nil, err
	}
	return s, nil
}

// gone tells whether the daemon has none of the objects any more.
func (s *Session) gone() bool {
	select {
	case <-s.host.Gone():
		return true
	default:
		return false
	}
}

// queue makes this side's end of a queue.
func (s *Session) queue(record, n int, produces bool) (*ipc.Queue, *datagram.Memory, uint32, error) {
	mem, at, err := s.host.Alloc(ipc.QueueSize(record, n))
	if err != nil {
		return nil, nil, 0, err
	}
	q, ok := ipc.NewQueue(mem.B, record, n, produces)
	if !ok {
		mem.Release()
		return nil, nil, 0, datagram.ErrInvalid
	}
	return q, mem, at, nil
}

// entries is the size of a queue for n records.
func entries(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

func (s *Session) call(ctx context.Context, c *ipc.XRCCall, files ...*os.File) (*ipc.XRCReply, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	return s.host.Call(ctx, c, files...)
}

// add adds an object.
func (s *Session) add(n uint32, o ender, ref objects.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[n] = o
	if ref.Kind != objects.KindNone {
		s.live[ref] = struct{}{}
	}
}

// keep keeps memory until the session ends.
func (s *Session) keep(m *datagram.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, m)
}

// destroy has the daemon end an object.
func (s *Session) destroy(ctx context.Context, n uint32, ref objects.Ref) error {
	s.mu.Lock()
	_, known := s.all[n]
	s.mu.Unlock()
	if !known {
		return net.ErrClosed
	}
	if _, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCDestroy, Object: n}); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.all, n)
	delete(s.live, ref)
	s.mu.Unlock()
	return nil
}

// post tells the daemon that there is something new in a queue, once until it looks.
func (s *Session) post(object uint32, asked ipc.Flag) {
	if asked.IsSet() {
		return
	}
	asked.Set()
	p := &s.posts
	p.mu.Lock()
	if n, err := p.ring.Ready(1); err == nil && n > 0 {
		work.PutPost(p.ring.Record(0), object)
		p.ring.Advance(1)
	} else {
		asked.Clear() // the next one tells
	}
	p.mu.Unlock()
	s.host.Wake()
}

// Event is what has happened to an object, until it is acknowledged.
type Event struct {
	objects.Event
	serial uint64
	fatal  bool
}

// NextEvent waits for an event. Until it is acknowledged with Ack the object that it is about
// cannot be destroyed.
func (s *Session) NextEvent(ctx context.Context) (Event, error) {
	r, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCEvent})
	if err == nil {
		e := Event{serial: r.Serial}
		return e, json.Unmarshal(r.Event, &e.Event)
	}
	if !s.gone() {
		return Event{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Event{}, net.ErrClosed
	}
	if !s.ended {
		s.ended = true
		for ref := range s.live {
			s.fatal = append(s.fatal, objects.Event{Kind: objects.EventDeviceFatal, Object: ref})
		}
	}
	if len(s.fatal) == 0 {
		return Event{}, s.host.Err()
	}
	e := s.fatal[0]
	s.fatal = s.fatal[1:]
	return Event{Event: e, fatal: true}, nil
}

// Ack acknowledges an event. EventsLost and EventDeviceFatal need none.
func (s *Session) Ack(e Event) error {
	if e.fatal || e.serial == 0 {
		return nil
	}
	_, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCAck, Serial: e.serial})
	return err
}

// Resolve asks a remote host for the queue behind a service. It makes no connection.
func (s *Session) Resolve(ctx context.Context, local, remote netip.Addr, service uint64) (objects.Answer, error) {
	r, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCResolve, Local: local, Remote: remote, Service: service})
	if err != nil {
		return objects.Answer{}, err
	}
	return objects.Answer{SRQN: r.SRQ, Tag: r.Tag}, nil
}

// Close destroys all objects of the session, newest first as far as one is used by another.
func (s *Session) Close() error {
	_, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCClose})
	if s.gone() {
		err = nil
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	s.mu.Lock()
	again := s.closed
	s.closed = true
	all := s.all
	s.all = nil
	s.mu.Unlock()
	if again {
		return net.ErrClosed
	}
	s.host.Close()
	for _, o := range all {
		o.abandon()
	}
	s.mu.Lock()
	kept := append(s.kept, s.posts.mem)
	s.kept = nil
	s.mu.Unlock()
	for _, m := range kept {
		m.Release()
	}
	return nil
}
