package node

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/statefile"
)

// succession is what a node knows of the one that had its state file before: which
// ports had a socket. Their programs are about to bind them again, and peers are about
// to send to them.
//
// Links to peers wait until all of these ports are bound, at most gateTime. Until a port
// is bound, or the grace is over, it counts as congested, and what comes for it
// nevertheless waits in a keeper. Only whose the port was may bind it until then: see
// attendance.
type succession struct {
	File *statefile.File // nil: no state file, and so no predecessor
	attendance
	opened chan struct{} // closed when links to peers may be made and taken

	mu       lockorder.Mutex[succession]                // guards the fields below; a leaf
	ports    map[netip.Addr]map[uint16]*statefile.Owner // the predecessor's ports, with those who had them; nil: not known
	services map[uint64]*statefile.HeldService          // the predecessor's service ids of XRC
	missing  int                                        // number of ports in ports
	links    []func()                                   // inbound links that wait for the gate
	gate     *time.Timer
	grace    *time.Timer
	over     bool // the grace time is over
	held     bool // constant: daemon.Heir.Begin opens
}

const (
	// gateTime bounds how long links wait for the programs of the predecessor: a
	// program that has ended meanwhile does not come back.
	gateTime = time.Second
	// maxGated bounds the inbound links that wait.
	maxGated = 4096
)

// succeed takes over from the predecessor. A node without a state file has none, and one
// that cannot open its state file goes on without.
func (n *Node) succeed() {
	u := &n.Succession
	u.opened = make(chan struct{})
	if in := n.inherited; in != nil {
		u.held, u.taking = true, true
		u.File = in.StateFile
	} else if n.Config.State != "" {
		f, err := statefile.Open(n.Config.State, n.stateFailed)
		if err != nil {
			n.stateFailed(err)
		} else {
			u.File = f
		}
	}
	if u.File != nil {
		u.services, u.ports = u.File.Services(), make(map[netip.Addr]map[uint16]*statefile.Owner)
		left := u.File.Left()
		u.missing = len(left)
		for a, had := range left {
			if u.ports[a.Addr()] == nil {
				u.ports[a.Addr()] = make(map[uint16]*statefile.Owner)
			}
			u.ports[a.Addr()][a.Port()] = had
		}
	}
	if u.missing+len(u.services) == 0 || n.Config.Grace < 0 {
		u.over = true
		u.openUnlessHeld()
		if !u.held { // with held sockets, all ports are bound again before anybody looks
			n.forgetPorts()
		}
		return
	}
	if u.missing > 0 {
		n.Log.Info("waiting for the ports of the predecessor", zap.Int("ports", u.missing), zap.Duration("grace", n.Config.Grace))
		u.gate = time.AfterFunc(min(gateTime, n.Config.Grace), u.openUnlessHeld)
	} else {
		u.openUnlessHeld()
	}
	u.grace = time.AfterFunc(n.Config.Grace, n.graceOver)
}

// forgetPorts takes the ports that nobody has bound out of the state file.
func (n *Node) forgetPorts() {
	u := &n.Succession
	for a, ports := range u.ports {
		la := n.Local(a)
		for port := range ports {
			if la == nil {
				u.File.Free(a, port)
				continue
			}
			la.Mu.Lock()
			if la.lookup(port) == nil {
				u.File.Free(a, port)
			}
			la.Mu.Unlock()
		}
	}
	for _, h := range u.services {
		u.File.FreeService(h)
	}
}

// stateFailed tells that the state file is of no use, or has no room for what is new.
func (n *Node) stateFailed(err error) {
	n.Log.Warn("no state file: a restart may lose messages", zap.String("file", n.Config.State), zap.Error(err))
}

// Open lets links to peers be made and taken.
func (u *succession) Open() {
	u.mu.Lock()
	if isClosed(u.opened) {
		u.mu.Unlock()
		return
	}
	links := u.links
	u.links = nil
	close(u.opened)
	u.mu.Unlock()
	for _, take := range links {
		take()
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// gated keeps an inbound link until links are taken, and tells whether it did; take is
// called then. refuse is called instead if too many wait.
func (u *succession) gated(take, refuse func()) bool {
	if isClosed(u.opened) {
		return false
	}
	u.mu.Lock()
	if isClosed(u.opened) {
		u.mu.Unlock()
		return false
	}
	full := len(u.links) >= maxGated
	if !full {
		u.links = append(u.links, take)
	}
	u.mu.Unlock()
	if full {
		refuse()
	}
	return true
}

// introduce tells a new local address what its predecessor's sockets were.
func (u *succession) introduce(la *Local) {
	if u.File == nil {
		return
	}
	la.file = u.File
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return
	}
	la.Mu.Lock()
	defer la.Mu.Unlock()
	for port, had := range u.ports[la.Addr] {
		la.expectLocked(port, had)
	}
}

// met notes that n ports of the predecessor were bound again.
func (u *succession) met(n int) {
	u.mu.Lock()
	u.missing -= n
	all := u.missing == 0
	u.mu.Unlock()
	if all {
		u.openUnlessHeld()
	}
}

// openUnlessHeld is open, but for a node that waits for daemon.Heir.Begin.
func (u *succession) openUnlessHeld() {
	if !u.held {
		u.Open()
	}
}

// graceOver gives up the ports that nobody has bound.
func (n *Node) graceOver() {
	u := &n.Succession
	u.openUnlessHeld()
	u.mu.Lock()
	u.over = true
	u.mu.Unlock()
	n.forgetPorts()
	for _, la := range n.AllLocals() {
		ports, dropped := la.giveUp()
		if ports == 0 {
			continue
		}
		n.Counters.recvDropNoSock.Add(uint64(dropped))
		n.Log.Warn("ports of the predecessor were not bound again",
			zap.Stringer("address", la.Addr), zap.Int("ports", ports), zap.Int("dropped", dropped))
		la.expectFewer()
		la.Announce(n)
	}
}

// endSuccession ends what waits.
func (n *Node) endSuccession() {
	u := &n.Succession
	for _, t := range [...]*time.Timer{u.gate, u.grace} {
		if t != nil {
			t.Stop()
		}
	}
	u.Open()
	if in := n.inherited; u.File != nil && (in == nil || isClosed(in.Begin)) { // the predecessor has the lock until Begin
		n.HighestNumber()
		u.File.Close()
	}
}
