package driver

import (
	"fmt"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/invariants"
)

// transmitter is the sending half of a path, guarded by Driver.mu.
//
// One goroutine at a time writes (net/rds/send.c, RDS_IN_XMIT); the others
// only append. Who finds the path idle writes at once, from its own goroutine:
// that is the fast way for a single message. A sender that comes back without
// anything having arrived in between, and soon, is streaming: its messages
// are left to collect until Config.Burst octets have, and it writes them itself, or
// until the flusher has had its turn behind all goroutines that could run. A
// flusher that finds more when it has written does not compete with a sender
// that is quick enough to fill a write by itself: it pauses, and then writes
// only what a sender has left behind.
type transmitter struct {
	phase phase
	batch conn.Batch

	seen  uint32 // Driver.arrivals at the last write
	last  time.Time
	since int // octets appended since the last write
	count int // messages appended since the last write

	flusher Worker // nil before it is needed
	resting bool   // the flusher pauses, whatever the phase has become meanwhile
	stopped bool
}

// phase is what a transmitter does.
type phase uint8

const (
	idle       phase = iota // nobody writes; who appends does
	collecting              // what is appended is left to the flusher, which was woken
	pausing                 // as collecting, and the flusher pauses: a sender fills whole writes by itself
	writing                 // a writer is at work
	roomy                   // as writing, and the link has said that it has room since the writer's last Send began
	full                    // the link is full, or has not started, or there is none
)

var phaseNames = [...]string{"idle", "collecting", "pausing", "writing", "roomy", "full"}

func (p phase) String() string { return phaseNames[p] }

// step is what happens to a transmitter.
type step uint8

const (
	stepWrite step = iota // a writer begins, or its next Send does
	stepLeave             // what is there to write is left to the flusher
	stepPause             // the flusher pauses
	stepTurn              // the flusher is back from its pause
	stepRoom              // the link says that it has room
	stepShort             // the writer ends, for the link has taken less than all
	stepDone              // the writer ends, or the flusher has nothing to do
	stepLink              // the link has changed
)

var stepNames = [...]string{"write", "leave", "pause", "turn", "room", "short", "done", "link"}

func (s step) String() string { return stepNames[s] }

const never = phase(255)

// steps is the whole table: from a phase, by a step, to a phase.
var steps = [...][8]phase{
	//          write    leave       pause    turn        room   short  done  link
	idle:       {writing, collecting, never, never, idle, never, idle, full},
	collecting: {writing, collecting, pausing, collecting, collecting, never, idle, full},
	pausing:    {writing, pausing, pausing, collecting, pausing, never, idle, full},
	writing:    {writing, never, never, never, roomy, full, idle, full},
	roomy:      {writing, never, never, never, roomy, never, idle, full},
	full:       {never, full, never, full, idle, never, full, full},
}

// to goes a step.
func (t *transmitter) to(s step) {
	next := steps[t.phase][s]
	if next == never {
		if invariants.Enabled {
			panic(fmt.Sprintf("driver: %v while %v", s, t.phase))
		}
		return
	}
	t.phase = next
}

// busy tells whether a writer is at work.
func (t *transmitter) busy() bool { return t.phase == writing || t.phase == roomy }

// left tells whether something is left to the flusher.
func (t *transmitter) left() bool { return t.phase == collecting || t.phase == pausing }

// stop ends the flusher.
func (t *transmitter) stop() {
	t.stopped = true
	if t.flusher != nil {
		t.flusher.Stop()
		t.flusher = nil
	}
}

// Full tells whether path i's link takes no more for now, with the lock.
func (d *Driver) Full(i int) bool { return d.path[i].tx.phase == full }
