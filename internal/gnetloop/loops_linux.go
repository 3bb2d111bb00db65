package gnetloop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// Loops are the event loops of a daemon. Several engines share them, and descriptors on which
// applications ring (Watch) are served there, too. NewLoops makes them, Close ends them.
//
// They differ from gnet's in how they sleep: gnet polls once, calls runtime.Gosched and polls
// again. In a program that reads for itself that lets its goroutines run. In a daemon, whose
// work the event loop does itself, Gosched wakes an idle thread that finds nothing to do.
// So a loop blocks in epoll_wait at once, and calls Gosched where a server asks for it, when a
// millisecond has passed since the last call, and after a millisecond without an event: a
// goroutine that can run does not wait much longer for the loop's processor.
type Loops struct {
	all []*loop
	wg  sync.WaitGroup

	mu     lockorder.Mutex[Loops] // a leaf
	homes  map[netip.Addr]*home
	closed bool
}

// home is the loop of a peer: it has all connections with an address, whichever engine's, as
// long as there is one.
type home struct {
	l     *loop
	conns int
}

// loop is one event loop.
type loop struct {
	ep     int
	bell   *doorbell // wakes the loop
	ear    int       // the loop's end of bell
	buffer []byte    // bytes read
	peers  int       // number of homes; guarded by Loops.mu
	served int       // number of sources; guarded by Loops.mu

	mu    lockorder.Mutex[loop] // taken under any lock, and nothing under it
	tasks []func()              // guarded by mu; what other goroutines want done on the loop
	over  bool                  // guarded by mu; the loop takes no more tasks
	spare []func()              // used by the loop only: memory for the next tasks
	rings [64]byte              // used by the loop only: what was read of the bell; on the stack it would escape under -race

	members map[uint64]member // used by the loop only: what is in the epoll instance, by the number that events name
	last    uint64            // number of the member that was added last
	turns   []*Source         // used by the loop only: sources to be served, the longest waiting first
	yield   bool              // used by the loop only: a source has asked for Gosched
	stop    bool              // used by the loop only
}

// member is a descriptor in a loop's epoll instance.
type member interface {
	ready(l *loop, events uint32)
}

const (
	// yieldEvery bounds how long other goroutines wait for the processor of a loop.
	yieldEvery = time.Millisecond
	// turnsFor bounds how long sources are served before the loop looks at its sockets.
	turnsFor = 500 * time.Microsecond
)

// NewLoops starts n event loops, 1 to 256, with read buffers of so many bytes. n 0 means
// GOMAXPROCS, at most 4; buffer 0 means 512 KiB. They hold three descriptors each.
func NewLoops(n, buffer int) (*Loops, error) { return startLoops(n, buffer, nil) }

// NewAwakened starts one event loop. If wake is not nil the loop waits for it, a channel of
// capacity 1, and not in the system: in a test, whoever writes to a descriptor of the loop sends
// to the channel, too.
func NewAwakened(wake chan struct{}) (*Loops, error) { return startLoops(1, 0, wake) }

func startLoops(n, buffer int, wake chan struct{}) (*Loops, error) {
	o := Options{Name: "event loops", EventLoops: n, ReadBuffer: buffer}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	ls := &Loops{homes: make(map[netip.Addr]*home)}
	for range o.EventLoops {
		l, err := newLoop(o.ReadBuffer)
		if err != nil {
			for _, l := range ls.all {
				l.close()
			}
			return nil, fmt.Errorf("event loops: %w", err)
		}
		l.bell.wake = wake
		ls.all = append(ls.all, l)
	}
	for _, l := range ls.all {
		ls.wg.Go(l.run)
	}
	return ls, nil
}

func newLoop(buffer int) (*loop, error) {
	l := &loop{buffer: make([]byte, buffer), members: make(map[uint64]member)}
	var err error
	if l.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if l.bell, l.ear, err = newDoorbell(); err != nil {
		_ = unix.Close(l.ep)
		return nil, err
	}
	l.bell.ep = l.ep
	if err = l.ctl(unix.EPOLL_CTL_ADD, l.ear, 0); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// ctl registers a descriptor, or ends that. id is what events of the descriptor name.
func (l *loop) ctl(op, fd int, id uint64) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id), Pad: int32(id >> 32)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.ep, op, fd, &ev))
}

// Close ends the loops. The engines are closed by then, and the sources stopped.
func (ls *Loops) Close() error {
	if ls == nil {
		return nil
	}
	ls.mu.Lock()
	closed := ls.closed
	ls.closed = true
	ls.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	for _, l := range ls.all {
		l.post(func() { l.stop = true })
	}
	ls.wg.Wait()
	for _, l := range ls.all {
		l.close()
	}
	return nil
}

func (l *loop) close() {
	_ = unix.Close(l.ep)
	_ = unix.Close(l.ear)
	l.bell.close()
}

// post has f called on the loop, soon. It is false if the loop has ended.
func (l *loop) post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	if l.tasks = append(l.tasks, f); len(l.tasks) == 1 {
		l.bell.strike() // with mu held: the descriptor is closed when the loop is over
	}
	return true
}

// run is the loop's goroutine.
func (l *loop) run() {
	var events [128]unix.EpollEvent
	yielded := time.Now() // when Gosched was called last
	fresh := true         // nothing was done since
	for !l.stop {
		timeout := -1
		switch {
		case len(l.turns) > 0:
			timeout = 0
		case !fresh:
			timeout = int(yieldEvery / time.Millisecond)
		}
		l.bell.awake.Store(false)
		if l.bell.pending.Load() { // by somebody who has found the loop awake
			timeout = 0
		}
		wait := unix.EpollWait
		if l.bell.wake != nil {
			wait = l.await
		}
		n, err := wait(l.ep, events[:], timeout)
		l.bell.awake.Store(true)
		if err != nil && err != unix.EINTR {
			panic("gnetloop: epoll_wait on our own descriptor: " + err.Error())
		}
		for i := range max(n, 0) {
			l.ready(&events[i])
		}
		if l.bell.pending.Load() && l.bell.pending.Swap(false) {
			l.rung()
		}
		now := time.Now()
		l.serve(now)
		idle := n == 0 && timeout > 0
		fresh = idle && len(l.turns) == 0
		if l.yield || idle || now.Sub(yielded) >= yieldEvery {
			l.yield = false
			runtime.Gosched()
			yielded, fresh = now, true
		}
	}
	l.mu.Lock()
	l.over = true
	tasks := l.tasks
	l.tasks = nil
	l.mu.Unlock()
	for _, f := range tasks {
		f()
	}
}

// await is EpollWait for a loop that may not wait in the system.
func (l *loop) await(ep int, events []unix.EpollEvent, timeout int) (int, error) {
	n, err := unix.EpollWait(ep, events, 0)
	if n != 0 || timeout == 0 {
		return n, err
	}
	var over <-chan time.Time
	if timeout > 0 {
		over = time.After(time.Duration(timeout) * time.Millisecond)
	}
	select {
	case <-l.bell.wake:
	case <-over:
	}
	return unix.EpollWait(ep, events, 0)
}

// ready does what an event is about.
func (l *loop) ready(ev *unix.EpollEvent) {
	id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
	if id == 0 {
		_, _ = unix.Read(l.ear, l.rings[:]) // before the looks, which follow
		return
	}
	if m := l.members[id]; m != nil { // an earlier event may have ended the member
		m.ready(l, ev.Events)
	}
}

// rung does what other goroutines want of the loop.
func (l *loop) rung() {
	l.mu.Lock()
	tasks := l.tasks
	l.tasks = l.spare[:0]
	l.mu.Unlock()
	for i, f := range tasks {
		tasks[i] = nil
		f()
	}
	l.spare = tasks
	l.bell.answer()
}

// serve gives the sources that wait their turns, as long as there is time since start.
func (l *loop) serve(start time.Time) {
	due, done := len(l.turns), 0
	for done < due && (done == 0 || time.Since(start) < turnsFor) {
		l.turns[done].turn(l) // may append to turns
		done++
	}
	n := copy(l.turns, l.turns[done:])
	clear(l.turns[n:])
	l.turns = l.turns[:n]
}

// homeOf is the loop of a peer's address, and counts one more connection there.
func (ls *Loops) homeOf(a netip.Addr) *loop {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	h := ls.homes[a]
	if h == nil {
		h = &home{l: slices.MinFunc(ls.all, func(a, b *loop) int { return a.peers - b.peers })}
		h.l.peers++
		ls.homes[a] = h
	}
	h.conns++
	return h.l
}

// leave is the end of a connection that homeOf has counted.
func (ls *Loops) leave(a netip.Addr) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	h := ls.homes[a]
	if h.conns--; h.conns == 0 {
		h.l.peers--
		delete(ls.homes, a)
	}
}

// seat is a connection's place in a loop.
type seat struct {
	l  *loop
	c  *Conn
	id uint64
}

// take gives a connection to the loop of its peer.
func (ls *Loops) take(c *Conn, tc *net.TCPConn) {
	_ = tc.Close() // c has its own descriptor
	l := ls.homeOf(c.remote.Addr())
	if !l.post(func() { l.open(c) }) {
		ls.leave(c.remote.Addr())
		c.end(fmt.Errorf("%s: %w", c.e.opts.Name, errRefused))
	}
}

// open begins to read from a connection.
func (l *loop) open(c *Conn) {
	l.last++
	s := &seat{l, c, l.last}
	l.members[s.id] = s
	if !c.opened(s, l.bell) {
		s.closeNow()
	} else if err := s.resume(); err != nil {
		s.close(err)
	}
}

// ready reads from the connection, once: epoll tells again of what is left.
func (s *seat) ready(l *loop, events uint32) {
	c := s.c
	n, errno := unix.Read(c.fd, l.buffer)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 && events&unix.EPOLLIN == 0 {
			s.close(io.EOF)
		}
	case errno != nil:
		s.close(os.NewSyscallError("read", errno))
	case n == 0:
		s.close(io.EOF)
	default:
		if c.fed(l.buffer[:n]) != nil {
			s.closeNow()
		}
	}
}

// close ends the connection, on its loop.
func (s *seat) close(cause error) {
	if s.l.members[s.id] != s {
		return
	}
	delete(s.l.members, s.id)
	_ = s.pause() // an error if the connection is paused
	s.c.e.opts.Loops.leave(s.c.remote.Addr())
	s.c.end(cause)
}

func (s *seat) closeNow() { s.close(transport.ErrClosed) }

// Close has the loop end the connection.
func (s *seat) Close() error {
	if !s.l.post(s.closeNow) {
		return errors.New("the event loop has ended")
	}
	return nil
}

func (s *seat) pause() error  { return s.l.ctl(unix.EPOLL_CTL_DEL, s.c.fd, s.id) }
func (s *seat) resume() error { return s.l.ctl(unix.EPOLL_CTL_ADD, s.c.fd, s.id) }
