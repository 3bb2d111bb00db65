package gnetloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/lockorder"
)

// doorbell wakes connections on one event loop. It is a pair of sockets with
// one end in the loop, and not a task in gnet's queue, for two reasons: it
// allocates nothing, and between two rings the loop looks at its sockets, while
// gnet works off a queue that is filled meanwhile before it looks up.
type doorbell struct {
	fd   int            // our end of the socket pair: writing a byte rings
	byte [1]byte        // the byte that is written; its value does not matter
	loop gnet.EventLoop // set by OnOpen, before hang returns
	ep   int            // the loop's epoll instance, set together with loop

	// A loop of our own looks at what was asked for before it sleeps, and is struck only then. gnet's
	// never say that they are awake.
	awake   atomic.Bool
	pending atomic.Bool   // something was asked for since the loop has looked
	wake    chan struct{} // of cap 1: where the loop waits; nil: in epoll_wait

	mu      lockorder.Mutex[doorbell]
	waiting []*Conn // guarded by mu; connections that have asked for Wake since the last answer

	serving []*Conn // used by the event loop only: connections being served, and memory for the next waiting
}

// newDoorbell makes a doorbell that is in no event loop, and the descriptor for the loop.
func newDoorbell() (b *doorbell, ear int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	return &doorbell{fd: fds[0]}, fds[1], nil
}

// hang puts a doorbell on one more event loop of gnet's.
func (e *Engine) hang() error {
	b, ear, err := newDoorbell()
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(ear), "doorbell")
	c, err := net.FileConn(f)
	_ = f.Close()
	if err == nil {
		_, err = e.client.EnrollContext(c, b) // EnrollContext closes c
	}
	if err == nil && (b.loop == nil || e.bells[b.loop] != nil) {
		// gnet gives a connection to the loop that has the fewest.
		err = fmt.Errorf("a doorbell: %w", errRefused)
	}
	if err == nil && b.ep < 0 {
		err = errors.New("gnet: no epoll instance is found in an event loop")
	}
	if err != nil {
		_ = unix.Close(b.fd)
		return err
	}
	e.bells[b.loop] = b
	return nil
}

// ring has c woken. It does not wait. The caller has acquired c or is on the
// event loop, either of which keeps the engine from closing.
func (b *doorbell) ring(c *Conn) {
	b.mu.Lock()
	first := len(b.waiting) == 0
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	if first {
		b.strike()
	}
}

// strike wakes the event loop, if it sleeps. It does not wait: there is room, because few bytes are unread.
func (b *doorbell) strike() {
	b.pending.Store(true)
	if !b.awake.Load() {
		_, _ = unix.Write(b.fd, b.byte[:])
		if b.wake != nil {
			select {
			case b.wake <- struct{}{}:
			default:
			}
		}
	}
}

// answer wakes on the event loop whoever is waiting. Who rings before the list
// is taken is in it; who rings later rings anew.
func (b *doorbell) answer() {
	b.mu.Lock()
	b.waiting, b.serving = b.serving[:0], b.waiting
	b.mu.Unlock()
	for i, c := range b.serving {
		b.serving[i] = nil
		c.wake()
	}
}

func (b *doorbell) close() { _ = unix.Close(b.fd) }
