package gnetloop

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/lockorder"
)

// poller waits for full sockets to have room again, in an epoll instance of
// its own: gnet writes only what was given to it, and copies that. Events are
// one-shot, so a connection that is not full costs nothing here. The instance is
// itself waited for by Go's poller: a thread that sleeps in epoll_wait has its
// processor taken away and given back in each round, which in a one-way stream,
// whose sender often finds the socket full, was a tenth of the CPU of both sides.
type poller struct {
	ep   int
	file *os.File        // the file of ep
	raw  syscall.RawConn // the raw connection of file
	wake int             // an eventfd that ends run

	mu    lockorder.Mutex[poller]
	conns map[uint64]*Conn // guarded by mu; connections by watch.id
	next  uint64           // guarded by mu
}

// watch is a connection's place in the poller, used by its writer and by finish.
type watch struct{ id uint64 } // 0: the connection is not registered

func newPoller() (*poller, error) {
	p := &poller{conns: make(map[uint64]*Conn)}
	var err error
	if p.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(p.ep, true) // NewFile gives a non-blocking file to Go's poller
	p.file = os.NewFile(uintptr(p.ep), "poller")
	if p.raw, err = p.file.SyscallConn(); err == nil {
		err = p.file.SetReadDeadline(time.Time{}) // an error if Go's poller has not taken it
	}
	if err != nil {
		_ = p.file.Close()
		return nil, err
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = p.file.Close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err = unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, p.wake, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		p.close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return p, nil
}

// arm asks for one Writable when c has room. The caller has acquired c.
func (p *poller) arm(c *Conn) error {
	op := unix.EPOLL_CTL_MOD
	if c.watch.id == 0 {
		op = unix.EPOLL_CTL_ADD
		p.mu.Lock()
		p.next++
		c.watch.id = p.next
		p.conns[p.next] = c
		p.mu.Unlock()
	}
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(c.watch.id), Pad: int32(c.watch.id >> 32)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.ep, op, c.fd, &ev))
}

// forget ends c's registration. It is needed although fd is closed next: gnet's
// descriptor may keep the socket, and with it the registration, a little longer.
func (p *poller) forget(c *Conn) {
	if c.watch.id == 0 {
		return
	}
	_ = unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, c.fd, nil)
	p.mu.Lock()
	delete(p.conns, c.watch.id)
	p.mu.Unlock()
}

// run calls Writable for every connection that has room, until stop.
func (p *poller) run(e *Engine) {
	var (
		evs [64]unix.EpollEvent
		n   int
		err error
	)
	look := func(fd uintptr) bool {
		n, err = unix.EpollWait(int(fd), evs[:], 0)
		return n > 0 || err != nil
	}
	for {
		if waiting := p.raw.Read(look); waiting != nil {
			panic("gnetloop: waiting for our own descriptor: " + waiting.Error())
		}
		if err != nil && err != unix.EINTR {
			panic("gnetloop: epoll_wait on our own descriptor: " + err.Error())
		}
		for i := range max(n, 0) {
			id := uint64(uint32(evs[i].Fd)) | uint64(uint32(evs[i].Pad))<<32
			if id == 0 {
				return
			}
			p.mu.Lock()
			c := p.conns[id]
			p.mu.Unlock()
			if c == nil || !c.acquire() {
				continue // the connection is ending, and Closed follows instead
			}
			e.writables.Add(1)
			c.h.Writable() // h is set, because only a started connection writes
			if c.release() {
				c.finish()
			}
		}
	}
}

func (p *poller) stop() { _, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 1}) }

func (p *poller) close() {
	_ = unix.Close(p.wake)
	_ = p.file.Close()
}
