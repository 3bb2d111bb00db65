package conn

import (
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// path is one of a connection's paths: a link or the want of one, a queue,
// and the sequence numbers that outlive links.
type path struct {
	index int
	state State
	link  LinkID
	born  uint64 // number of the link among all of the connection, in the order they came
	sport uint16 // source port of the link, if that is inbound

	sequence uint64 // sequence number of the next message picked for the first time
	q        queue
	shelf    shelf // messages held back, see hold.go
	log      log
	nextOff  int // bytes of the message at q.next already written
	written  uint64
	acked    uint64
	pongs    int

	control    []byte    // encoded map or probe being written
	controlOff int       // bytes of control already written
	mapBuf     []byte    // memory of control, if that is a map
	mapPending bool      // this link has not carried our map yet
	probe      bool      // a probe is due on this link
	probes     uint32    // probes sent on this link
	probeAt    time.Time // when an unanswered probe is repeated; zero: no repetition is due
	probeWait  time.Duration
	answers    uint32 // probes of this link that were answered
	told       bool   // the peer has stated its generation on this link
	toldGen    uint32 // the stated generation; 0: the peer has stated that it has none
	survey     uint32 // answers that end the present survey of this link
	surveys    int    // surveys begun on this link
	mapAt      uint32 // probes when the last map was written: more answers prove that it was taken
	filling    bool   // Fill has shown something, and Wrote has not been called
	shown      uint64 // end of the messages that Fill has shown last
	agrees     bool   // this link has stated what is known of the peer, see claim.go
	claiming   bool   // nothing is written while this link claims something else
	leaving    bool   // nothing new is picked; the link ends when what is partly written is out, see Leave
	bound      bool   // the link takes what is written next for the message of an operation it has begun
	hold       bool   // nothing is written before that bound operation is done
	compact    bool   // canceled messages wait for Wrote
	tooLong    bool   // messages that are too long for the peer wait for Wrote
	mute       bool   // the peer has not said on this link what it takes, and can say it in no other way, see longest.go
	muteBy     time.Time
	unread     bool   // what this link's TCP had taken before the peer took the link may not be read, see proof.go
	unreadTo   uint64 // what this link had taken when it was proved, the greatest number while that is not known: the peer has read it when more is acknowledged

	dialing  bool // a dial was asked for and has not been answered
	outbound bool // the link was dialed by us
	proved   bool // the peer's RDS has taken the link, not just its TCP
	paused   bool // the link is not read for now; see pause.go
	proveBy  time.Time
	redialAt time.Time
	slot     time.Time     // the last one of Config.Pace
	window   time.Duration // back-off before the next dial
	idle     bool          // redialAt is that of a path with nothing to send
	resets   uint64

	asked   uint32         // not 0: the probe whose answer has the links refused that wait for this path, see challenge.go
	askedBy time.Time      // when the wait for that answer ends
	heard   time.Time      // when something arrived on the link last, since asked was set
	met     bool           // Meets is to follow when what this link claims is believed
	claim   wire.Handshake // what this link claims, if claiming

	opsMost  int // operations that Fill shows at a time: what the link has taken of late, and some more
	opsShown int // operations that the last Fill has shown
	opsBegun int // operations that the link has begun of those

	pending int    // operations begun and not done
	quiet   int    // messages in [first,next) that wait only for their operation
	holes   int    // settled messages in [first,next)
	settled uint64 // link offset up to which acked was applied: all of acked, once the link is proved, read and not mute
}

// Ready tells whether path i has something to write.
func (c *Conn) Ready(i int) bool {
	p := &c.paths[i]
	return p.state == Up && p.ready(c)
}

// ready tells whether there is something to write.
func (p *path) ready(c *Conn) bool {
	if p.hold || p.claiming {
		return false
	}
	if p.leaving {
		return p.begun()
	}
	if len(p.control) > 0 || p.mapPending || p.probe {
		return true
	}
	return (p.q.next < p.q.fresh || p.q.next < p.q.tail && !c.blocked(p)) && !c.opWaits(p, p.q.next)
}

// blocked tells whether new messages must wait for path 0; see barrier.go.
func (c *Conn) blocked(p *path) bool { return p.index > 0 && c.barrier > 0 }

// Trim gives back the memory that empty queues keep for the next burst. The
// owner calls it when the connection has been idle for a moment.
func (c *Conn) Trim() {
	for i := range c.paths {
		if p := &c.paths[i]; p.q.len() == 0 && !p.filling {
			p.log.shrink()
			p.q.shrink()
			if len(p.control) == 0 {
				p.mapBuf = nil
			}
		}
	}
	c.shrinkOps()
}
