//go:build !live

package daemon

import (
	"bytes"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// stopping is an application with a write under way, behind which a message comes, at
// a daemon that ends.
type stopping struct {
	net    *opNet
	svc    *Service
	a, b   *socket.Socket
	theirs []byte        // what is written to
	local  []byte        // what is written: 0x11
	reused chan struct{} // closed when the application has used local again, for 0x22
	over   chan error    // the end of Service.Close
}

func newStopping(t *testing.T) *stopping {
	l, n := newOpLab(t)
	svc, c := opService(t, l, n, config.Service{})
	p := &stopping{net: n, svc: svc, a: bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), b: l.bind(n.node(l, config.Node{})), theirs: make([]byte, 64), reused: make(chan struct{}), over: make(chan error, 1)}
	p.a.SetLinger(0)
	p.local = lent(t, p.a, len(p.theirs))
	copy(p.local, bytes.Repeat([]byte{0x11}, len(p.local)))
	remote := rdstest.MustGetMR(t, p.b, p.theirs, 0)
	n.Set(func() { n.Hold = true })
	rdstest.Operate(t, p.a, p.b, 1, datagram.Outgoing{Data: []byte("written"), RDMA: &datagram.RDMA{Cookie: remote, Local: [][]byte{p.local}, Write: true}})
	n.WaitHeld(t, 1)
	x := lastSession(svc)
	go func() {
		defer close(p.reused)
		m, err := p.a.Recv(rdstest.Background(t))
		if err != nil || m.Token != 1 || m.Status != datagram.StatusDropped {
			t.Errorf("%+v, %v", &m, err)
		}
		copy(p.local, bytes.Repeat([]byte{0x22}, len(p.local)))
	}()
	go func() { p.over <- svc.Close() }()
	<-x.done
	return p
}

func (p *stopping) isReused() bool {
	select {
	case <-p.reused:
		return true
	default:
		return false
	}
}

// An application hears of the end of a daemon when the memory of its operations is its
// own again: what a peer has behind a message is never what was put there afterwards.
func TestEndOfTheDaemonIsHeardBehindOperations(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		p := newStopping(t)
		if rdstest.Holds(20*time.Millisecond, p.isReused) {
			t.Error("the application has heard, and the link has its memory")
		}
		p.net.Release()
		<-p.reused
		<-p.over
		if !bytes.Equal(p.theirs, bytes.Repeat([]byte{0x11}, len(p.theirs))) {
			t.Errorf("%x was written", p.theirs)
		}
	})
}

// Operations that do not end keep no daemon: their links are ended, and they with them.
func TestEndOfTheDaemonCutsOperations(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		p := newStopping(t)
		<-p.reused
		if p.net.Held() > 0 {
			t.Error("the application has heard, and the link has its memory")
		}
		p.net.Release()
		<-p.over
	})
}

// Nor does a link that keeps what it has: that costs time.
func TestEndOfTheDaemonWithMemoryThatIsStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 15 s: run without -short")
	}
	bubble(t, func(t *testing.T, _ *lab) {
		p := newStopping(t)
		p.net.Set(func() { p.net.Late = true })
		<-p.over
		<-p.reused
		p.net.Lose(nil)
	})
}
