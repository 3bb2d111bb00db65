package ipc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
)

// InProcess is where a daemon and applications of one process meet, in tests whose time is that
// of testing/synctest: no goroutine may wait in the system there. Connections, memory and
// doorbells are those between processes. But whoever would wait for a descriptor waits for a
// channel, at which the other end, which is in the same process, pokes.
type InProcess struct {
	Path string        // to be given to daemon and applications as the path of the socket
	loop chan struct{} // cap 1: the daemon's event loop is to look at its descriptors

	mu     lockorder.Mutex[InProcess]
	accept func(*Conn)              // nil: no daemon listens
	wakes  map[uint64]chan struct{} // by the inode of a bell's socket, or of an ear's
}

var (
	inProcess sync.Map // *InProcess by Path
	lastPlace atomic.Uint64
)

// NewInProcess makes such a place, until Close.
func NewInProcess() *InProcess {
	p := &InProcess{Path: fmt.Sprint("in-process:", lastPlace.Add(1)), loop: make(chan struct{}, 1), wakes: make(map[uint64]chan struct{})}
	inProcess.Store(p.Path, p)
	return p
}

// Close ends the place.
func (p *InProcess) Close() { inProcess.Delete(p.Path) }

// InProcessAt is the place with a path, nil if the path is that of a socket.
func InProcessAt(path string) *InProcess {
	p, _ := inProcess.Load(path)
	place, _ := p.(*InProcess)
	return place
}

// Loop is where the daemon's event loop waits, of capacity 1; nil without a place: in the system.
func (p *InProcess) Loop() chan struct{} {
	if p == nil {
		return nil
	}
	return p.loop
}

// Accept gives connections to f from now on; nil: they are refused. f does not wait.
func (p *InProcess) Accept(f func(*Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accept = f
}

// dial connects to the daemon.
func (p *InProcess) dial() (*Conn, error) {
	p.mu.Lock()
	accept := p.accept
	p.mu.Unlock()
	if accept == nil {
		return nil, fmt.Errorf("%s: %w", p.Path, syscall.ECONNREFUSED)
	}
	a, b, err := p.pair()
	if err == nil {
		accept(b)
	}
	return a, err
}

// poke wakes who waits for c, or the next who will.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
