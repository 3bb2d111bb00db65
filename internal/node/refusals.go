package node

import (
	"slices"
	"time"

	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/transport"
)

// undelivered tells the peer that the fate of messages is not known: they came for s in
// this burst, and wait in the daemon alone, because the application has no room for them.
// They count as acknowledged all the same, so that nobody else waits for them.
func (k *sink) undelivered(s *Socket) {
	if !k.rx.Caps().Refuses {
		return
	}
	for _, n := range s.since(k.peer.Index, k.rx.Path(), k.first) {
		k.rx.Refuse(n, transport.RefusedUnknown)
	}
}

// since are the numbers of the messages from a path of a peer that the socket has, from
// first on, ascending. They are of the latest burst: what came before is not looked at.
func (s *Socket) since(peer uint32, path int, first uint64) (numbers []uint64) {
	s.Queue.Each(func(it *socket.Item) bool {
		if it.Peer != peer || int(it.Path) != path {
			return true
		}
		if it.Seq < first { // a message of an earlier burst
			return false
		}
		numbers = append(numbers, it.Seq)
		return true
	})
	slices.Reverse(numbers)
	return numbers
}

// What is remembered of a peer's ports that nobody is bound to, for reports.
const (
	maxUnbound  = 64
	unboundLast = 10 * time.Minute // how long after its last message a port is listed
)

// unboundPort is a port of a peer that has refused messages.
type unboundPort struct {
	sport, dport uint16 // ports of the last message
	count        int
	first, last  time.Time
}

// refusedLocked is conn.Config.OnRefused.
func (p *Peer) refusedLocked(sport, dport uint16) {
	now := time.Now()
	u := unboundPort{dport: dport, first: now}
	if i := slices.IndexFunc(p.unbound, func(e unboundPort) bool { return e.dport == dport }); i >= 0 {
		if e := p.unbound[i]; now.Sub(e.last) < unboundLast {
			u = e
		}
		p.unbound = slices.Delete(p.unbound, i, i+1)
	} else if len(p.unbound) == maxUnbound {
		p.unbound = slices.Delete(p.unbound, 0, 1)
	}
	u.sport, u.last = sport, now
	u.count++
	p.unbound = append(p.unbound, u)
}
