package xrc

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// What a peer may reach by a key is for the queue to say that its Write, read or atomic
// names. RDS names it by the port that the message behind the operation is for: so a cookie is
// good for the sockets of the application that exposes the memory, by whatever link, and the
// sender need not know which queue that application has.
//
// A peer that lacks the capability names none, and reaches nothing.

// Protection finds the protection domain of the queue that number names for this peer; nil:
// there is none, or no target that the peer has in the queue's domain accepts the right. An honest
// peer has kept to the limits of the one target that it means (Channel.pickLocked).
func (x *finder) Protection(number uint32, needs mr.Rights) *mr.Domain {
	if port, ok := objects.PortOf(number); ok {
		return x.memory(port)
	}
	if q, accepts := x.find(number); accepts&needs == needs {
		return q.Domain()
	}
	return nil
}

// farthest is the address that stands for all from there on. There is no region of RDS, whose
// bounds have 33 bits, and an operation from there on ends within the addresses that can be
// named.
const farthest = 1 << 39

// reaches makes a work request name an address of the memory of the program that has a port.
func reaches(w *iwarp.WorkRequest, port uint16, addr uint64) {
	w.Queue, w.RemoteAddr = objects.PortQueue(port), min(addr, farthest)
}
