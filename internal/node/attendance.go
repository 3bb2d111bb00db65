package node

import (
	"fmt"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds/datagram"
)

// attendance is which applications are attached. It decides who may bind a port that the
// node's predecessor had a socket at.
type attendance struct {
	mu      lockorder.Mutex[attendance] // guards the fields below; a leaf
	present map[[16]byte]int            // sessions of applications, by their secrets
	served  time.Time                   // since when applications can attach; zero: they cannot
	taking  bool                        // sockets are those of another process, which were handed over
}

// ownerTime is how long an application may take to attach again before another process of its
// user gets its ports.
const ownerTime = time.Second

// errKept: the port is somebody else's.
var errKept = fmt.Errorf("it is kept for the application that had it before the restart: %w", datagram.ErrAddressInUse)

// Attached notes that an application is attached, which may bind ports from then on.
func (n *Node) Attached(o *statefile.Owner) {
	a := &n.Succession.attendance
	a.mu.Lock()
	if a.present == nil {
		a.present = make(map[[16]byte]int)
	}
	a.present[o.Secret]++
	a.mu.Unlock()
	if f := n.Succession.File; f != nil {
		f.Own(o)
	}
}

// Detached undoes Attached, when the application has closed its last socket.
func (n *Node) Detached(o *statefile.Owner) {
	a := &n.Succession.attendance
	a.mu.Lock()
	if a.present[o.Secret]--; a.present[o.Secret] == 0 {
		delete(a.present, o.Secret)
	}
	a.mu.Unlock()
	if f := n.Succession.File; f != nil {
		f.Disown(o)
	}
}

// Serving notes that applications can attach from now on.
func (n *Node) Serving() {
	a := &n.Succession.attendance
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taking = false
	if a.served.IsZero() {
		a.served = time.Now()
	}
}

// yields tells whether o may bind a port that had had before the restart. The application that
// states the secret of had may, and so may this process. Of the same user the process that had the
// port may, with another secret, and another process may if that one has ended, or has had
// ownerTime to attach again and has not; and at once if the application stated no secret,
// because it could not prove who it is. Where the predecessor did not note who had the port, everybody may.
func (a *attendance) yields(had, o *statefile.Owner) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	none := [16]byte{}
	switch {
	case a.taking || had == nil || o == nil || had.Secret != none && had.Secret == o.Secret:
		return true
	case had.UID != o.UID || had.Place != o.Place:
		return false
	case had.Secret == none || had.Process.Ended() || had.Process.PID != 0 && had.Process == o.Process:
		return true
	}
	return a.present[had.Secret] == 0 && !a.served.IsZero() && time.Since(a.served) >= ownerTime
}

// MayAdvertise tells whether o, nil: this process, may have a service id of XRC: nobody had it
// before the restart, or o may have what that one had.
func (n *Node) MayAdvertise(id uint64, o *statefile.Owner) error {
	u := &n.Succession
	u.mu.Lock()
	left, over := u.services[id], u.over
	u.mu.Unlock()
	if left != nil && !over && !u.yields(left.Owner(), o) {
		return errKept
	}
	return nil
}

// Advertised notes that o, nil: this process, has a service id. The function that it returns notes that
// o has it no more; a successor keeps the id for o all the same if the node ends.
func (n *Node) Advertised(id uint64, o *statefile.Owner) (withdrawn func()) {
	f := n.Succession.File
	if f == nil {
		return func() {}
	}
	h := f.HoldService(id, o)
	return func() {
		if !n.Leaving.Load() {
			f.FreeService(h)
		}
	}
}
