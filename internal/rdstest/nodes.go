package rdstest

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// Provider is where sockets come from.
type Provider interface {
	Bind(addr netip.AddrPort) (*socket.Socket, error)
	Info() (info.Report, error)
	Close() error
}

// peers is a node, whose package imports this one for its tests.
type peers[P any] interface{ EachPeer(f func(P)) }

// Peers is the number of a node's peers.
func Peers[P any](n peers[P]) (count int) {
	n.EachPeer(func(P) { count++ })
	return count
}

// CutLinks ends all links of a node.
func CutLinks[P interface {
	Lock()
	Unlock()
	Link(path int) transport.Link
}](n peers[P]) {
	n.EachPeer(func(p P) {
		for i := range conn.MaxPaths {
			p.Lock()
			l := p.Link(i)
			p.Unlock()
			if l != nil {
				l.Close(transport.Abort)
			}
		}
	})
}

// Lent is memory that the provider of a socket takes; own tells that it is a node of this process.
// What orders the accesses of peers, on a wire or in shared memory, the race detector does not
// see, so none of it is of Go's heap.
func Lent(t testing.TB, s *socket.Socket, n int, own bool) []byte {
	t.Helper()
	if own {
		b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		Must(t, err)
		t.Cleanup(func() {
			if err := s.Close(); !errors.Is(err, datagram.ErrBusy) { // nothing has it any more
				_ = syscall.Munmap(b)
			}
		})
		return b
	}
	m, err := s.AllocMemory(n)
	Must(t, err)
	t.Cleanup(func() { m.Release() })
	return m.B
}
