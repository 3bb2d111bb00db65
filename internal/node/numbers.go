package node

import (
	"slices"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/statefile"
)

// numbers has the highest sequence number that the node, or a predecessor, has given to a message
// on any path. A connection begins with a higher one, because the peer may remember what it has
// received of an earlier connection, and would take a lower number for a repeated message. The
// clock alone is not enough: it can be set back.
type numbers struct {
	mu       lockorder.Mutex[numbers] // guards the fields below; a leaf
	file     *statefile.File          // nil: there is no state file
	highest  uint64
	reserved uint64 // what the file says: after a SIGKILL numbers begin there
}

// reserve is how far ahead of the highest number numbers are reserved, so that no message costs
// a write. It is an hour of the clock.
const reserve = uint64(time.Hour)

// open takes over what a predecessor has left.
func (x *numbers) open(file *statefile.File) {
	if x.file = file; file != nil {
		x.highest = max(x.highest, file.Number())
	}
}

// first is the number of a connection's first message.
func (x *numbers) first(now time.Time) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := max(uint64(now.UnixNano()), x.highest+1)
	x.noteLocked(v)
	return v
}

// note follows numbers that were given to messages.
func (x *numbers) note(given ...uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noteLocked(slices.Max(given))
}

func (x *numbers) noteLocked(v uint64) {
	x.highest = max(x.highest, v)
	if x.file != nil && x.highest+reserve/2 > x.reserved {
		x.reserved = x.highest + reserve
		x.file.Reserve(x.reserved)
	}
}

// HighestNumber is the highest sequence number that was given to a message, for whoever gives
// them from now on: numbers that were reserved beyond are given up.
func (n *Node) HighestNumber() uint64 {
	n.NoteNumbers()
	x := &n.numbers
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reserved = x.highest; x.file != nil {
		x.file.Reserve(x.reserved)
	}
	return x.highest
}

// NoteNumbers follows the numbers that connections have given, and reserves more.
func (n *Node) NoteNumbers() {
	n.numbers.note(0)
	n.EachPeer(func(p *Peer) {
		p.Lock()
		legacy := p.Core.Legacy()
		p.Unlock()
		n.numbers.note(legacy.Next[:]...)
	})
}
