package tcp

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// poller waits for full sockets to have room again, in an epoll instance of
// its own: gnet writes only what was given to it, and copies that. Events are
// one-shot, so a link that is not full costs nothing here.
type poller struct {
	ep   int
	wake int // an eventfd that ends run

	mu    sync.Mutex
	links map[uint64]*link // guarded by mu; by watch.id
	next  uint64           // guarded by mu
}

// watch is a link's place in the poller, used by its writer and by finish.
type watch struct{ id uint64 } // 0: not registered

func newPoller() (*poller, error) {
	p := &poller{links: make(map[uint64]*link)}
	var err error
	if p.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(p.ep)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err = unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, p.wake, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		p.close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return p, nil
}

// arm asks for one Writable when l has room. The caller has acquired l.
func (p *poller) arm(l *link) error {
	op := unix.EPOLL_CTL_MOD
	if l.watch.id == 0 {
		op = unix.EPOLL_CTL_ADD
		p.mu.Lock()
		p.next++
		l.watch.id = p.next
		p.links[p.next] = l
		p.mu.Unlock()
	}
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(l.watch.id), Pad: int32(l.watch.id >> 32)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.ep, op, l.fd, &ev))
}

// forget ends l's registration. It is needed although fd is closed next: gnet's
// descriptor may keep the socket, and with it the registration, a little longer.
func (p *poller) forget(l *link) {
	if l.watch.id == 0 {
		return
	}
	_ = unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, l.fd, nil)
	p.mu.Lock()
	delete(p.links, l.watch.id)
	p.mu.Unlock()
}

// run calls Writable for every link that has room, until stop.
func (p *poller) run(t *Transport) {
	var evs [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.ep, evs[:], -1)
		if err != nil && err != unix.EINTR {
			panic("tcp: epoll_wait on our own descriptor: " + err.Error())
		}
		for i := range max(n, 0) {
			id := uint64(uint32(evs[i].Fd)) | uint64(uint32(evs[i].Pad))<<32
			if id == 0 {
				return
			}
			p.mu.Lock()
			l := p.links[id]
			p.mu.Unlock()
			if l == nil || !l.acquire() {
				continue // it is ending, and Closed follows instead
			}
			t.writeSpace.Add(1)
			if l.h != nil {
				l.h.Writable()
			}
			if l.release() {
				l.finish()
			}
		}
	}
}

func (p *poller) stop() { _, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 1}) }

func (p *poller) close() {
	_ = unix.Close(p.wake)
	_ = unix.Close(p.ep)
}
