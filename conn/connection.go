package conn

import (
	"errors"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// Conn is the state of everything between one local and one remote address.
type Conn struct {
	cfg   Config
	paths [MaxPaths]path

	npaths      int            // number of paths after the handshake; 0: no handshake yet
	multipath   bool           // the peer states more than one path
	sourceIndex bool           // the peer's source ports tell its path indexes
	theirGen    uint32         // the peer's generation; 0: not stated
	genBorn     uint64         // birth of the link that told theirGen: what older links say is out of date
	stated      wire.Handshake // what the peer states, as far as it is believed, see claim.go
	indexedBy   time.Time      // until when a source port may tell though sourceIndex does not say so any more, see reindex
	disputed    bool           // path settings have been stated, and then others
	births      uint64         // links dialed and accepted so far
	epoch       uint32         // grows when the peer's generation changes
	early       bool           // messages took path 0 for want of a handshake

	barrier uint64    // not 0: paths other than 0 wait until the peer has path 0's messages up to here
	fence   uint32    // the probe of path 0's link whose answer lifts the barrier; 0: not sent
	fenceBy time.Time // when the barrier falls back to path 0's acknowledgements; zero: not without a link

	verify   uint32    // the probe of path 0's link that must be answered before other paths are dialed; 0: none
	verifyBy time.Time // when other paths are dialed without an answer to verify

	remote      *wire.CongestionMap // the peer's congestion map; nil: nothing is congested
	mapped      bool                // the peer has sent its congestion map
	longest     wire.Limit          // the longest payload that the peer takes, as its last word is; 0: not known
	longestBorn uint64              // birth of the link that told longest
	maps        uint32              // changes of remote
	held        []heldLink
	queued      int   // bytes of memory in queued and unacknowledged messages
	shelved     int   // part of queued: messages that are held back
	short       bool  // Enqueue has refused for the budget and nobody was told of room since
	invited     bool  // the peer has knocked
	unneeded    bool  // nobody here talks to the peer, see Need
	asks        uint8 // bit i: path i's link is being asked whether it lives
	asked       bool  // Connect has asked for a link and none has come since
	closed      bool
	retired     bool // Retire was called
	departed    bool // Depart was called
	barred      bool // Bar was called, and not Unbar since

	holds   *wire.CongestionMap // ports that are held; nil: none
	holding int                 // number of ports in holds

	extended  bool // some message had extension headers
	limits    Limits
	limitBase time.Time // time of the first message with a deadline; the deadlines of entries count from it

	ops     []*Operation // operations of messages queued and unacknowledged, by id; nil: free
	freeOps []uint32     // free ids of ops

	actions []Action
	freed   []*Account
	fates   []Fate
	stats   Counters
}

// Counters count what happened on a connection, names as in net/rds/rds.h
// (struct rds_statistics).
type Counters struct {
	ConnReset          uint64 // links lost or ended
	SendQueued         uint64 // messages accepted by Enqueue
	SendPong           uint64 // pongs queued, and probe pings sent, as in Linux
	RecvPing           uint64 // pings and probe pings received
	CongUpdateReceived uint64 // congestion maps received
	CongSendError      uint64 // pongs not sent because their port is congested or held
	Retransmitted      uint64 // messages flagged RETRANSMITTED after a link was lost
	DroppedFlush       uint64 // messages dropped because the peer began a new generation
	PongsDropped       uint64 // pongs not queued because MaxPongs were waiting
	LinksRefused       uint64 // inbound links refused
	Generations        uint64 // changes of the peer's generation
	Held               uint64 // messages that were held back
	SendRefused        uint64 // messages that ended with Refused
	SendExpired        uint64 // messages that ended with Expired
	SendTooLong        uint64 // messages that ended with TooLong
	SendBarred         uint64 // messages that Enqueue did not take, or that ended, because the peer is barred
}

// Errors of Enqueue.
var (
	// ErrBudget: the memory budget of the connection is used up.
	ErrBudget = errors.New("conn: budget of queued messages used up")
	// ErrCongested: the destination port is marked in the peer's congestion map,
	// or held.
	ErrCongested = errors.New("conn: destination port congested")
	// ErrClosed: the connection was closed.
	ErrClosed = errors.New("conn: closed")
)

// New makes a connection with all paths down.
func New(cfg Config) *Conn {
	cfg.setDefaults()
	c := &Conn{cfg: cfg, theirGen: cfg.PeerGeneration}
	for i := range c.paths {
		c.paths[i] = path{index: i, sequence: cfg.FirstSequence, log: log{pool: cfg.Pool}}
	}
	return c
}

// connector tells whether this side's links are the ones used.
func (c *Conn) connector() bool { return c.cfg.Role == Connector }

// Epoch grows each time the peer begins a new generation; see Inbound.Sync.
func (c *Conn) Epoch() uint32 { return c.epoch }

// Paths is the number of paths in use, 0 while no handshake has settled it.
func (c *Conn) Paths() int { return c.npaths }

// PeerGeneration is the peer's last stated generation, 0 if it stated none.
func (c *Conn) PeerGeneration() uint32 { return c.theirGen }

// Counters returns a copy of the counters.
func (c *Conn) Counters() Counters { return c.stats }

// Unsent is the number of bytes of the messages that wait on path i to be
// written, including all of the one that has been begun, a header's for an
// operation without a message, and HeldBytes.
func (c *Conn) Unsent(i int) int { return c.paths[i].q.unsent + c.paths[i].shelf.bytes }

// charged is what counts against the budget: what is held back for one application is
// no reason to refuse the others. It is bounded by what sockets may have queued.
func (c *Conn) charged() int { return c.queued - c.shelved }

// roomy tells, once, those who met the budget that there is room again.
func (c *Conn) roomy() {
	if c.short && c.charged() < c.cfg.Budget-c.cfg.Budget/4 {
		c.short = false
		c.act(Action{Kind: WakeAll})
	}
}

// Queued is the memory that queued and unacknowledged messages take.
func (c *Conn) Queued() int { return c.queued }

// Congested tells whether the peer's last map marks the port.
func (c *Conn) Congested(dport uint16) bool { return c.remote != nil && c.remote.Congested(dport) }

// MapVersion grows whenever RefusedPorts may have changed.
func (c *Conn) MapVersion() uint32 { return c.maps }

// used is the number of paths that may have links.
func (c *Conn) used() int { return max(1, c.npaths) }

// PathFor is the path of messages from a socket bound to port: path 0 until
// the handshake is done, then chosen by a hash (net/rds/send.c,
// rds_send_mprds_hash), so that a socket keeps to one path.
func (c *Conn) PathFor(port uint16) int {
	if c.npaths <= 1 {
		return 0
	}
	return int(hash(uint32(port))) & (c.npaths - 1)
}

// hash is Jenkins' hash of one word with seed 0, which Linux uses for all
// sockets but the first (include/linux/jhash.h, jhash_1word).
func hash(a uint32) uint32 {
	const initial = 0xdeadbeef + 4
	rol := func(x uint32, n uint) uint32 { return x<<n | x>>(32-n) }
	a, b, c := a+initial, uint32(initial), uint32(initial)
	c = (c ^ b) - rol(b, 14)
	a = (a ^ c) - rol(c, 11)
	b = (b ^ a) - rol(a, 25)
	c = (c ^ b) - rol(b, 16)
	a = (a ^ c) - rol(c, 4)
	b = (b ^ a) - rol(a, 14)
	return (c ^ b) - rol(b, 24)
}

// Message is one message to send.
type Message struct {
	Sport, Dport uint16
	Payload      []byte   // copied, unless Body is set; at most InlineMax bytes
	Body         *buf.Buf // the payload instead, one reference of which passes to the core on success
	Account      *Account // already charged
	Token        uint64   // returned with the fate
	Notify       bool     // report the fate
	Failure      bool     // report the fate unless it is success
	Admitted     bool     // the owner has judged congestion already, when it accepted the message

	// Deadline, if not zero, is when the message ends with Expired unless it was picked
	// for transmission before.
	Deadline time.Time

	Extensions [wire.ExtensionSize]byte // extension headers of the message
	Op         *Operation               // operation on the peer's memory, done before the message; nil: none
}

// Extended tells whether the message has extensions.
func (m *Message) Extended() bool { return m.Extensions[0] != wire.ExtNone }

// Size is the number of payload bytes.
func (m *Message) Size() int {
	if m.Body != nil {
		return len(m.Body.B)
	}
	return len(m.Payload)
}

// entryOverhead is what a message is charged against the budget besides its
// bytes, so that messages without payload are bounded too.
const entryOverhead = 96

// Enqueue queues m on path i and tells whether the path is ready to transmit.
// It fails only with ErrBudget, ErrCongested, ErrBarred, ErrTooLong or ErrClosed, having taken nothing. A
// message whose deadline has passed is taken and ends with Expired at once, and so does an admitted one
// that is too long for the peer, with TooLong.
func (c *Conn) Enqueue(now time.Time, i int, m *Message) (ready bool, err error) {
	switch {
	case c.closed:
		return false, ErrClosed
	case c.barred:
		c.stats.SendBarred++
		return false, ErrBarred
	case !m.Admitted && m.Size() > c.longest.Octets():
		return false, ErrTooLong
	case c.charged() >= c.cfg.Budget:
		c.short = true
		return false, ErrBudget
	case c.stopped(m.Dport) && !m.Admitted:
		return false, ErrCongested
	}
	c.stats.SendQueued++
	p := &c.paths[i]
	c.push(p, m, 0)
	if m.Admitted && m.Size() > c.longest.Octets() {
		c.settle(p, p.q.tail-1, p.q.tail, func(*entry) (Status, bool) { return TooLong, true })
		return false, nil
	}
	if !m.Deadline.IsZero() && !c.limitLast(now, p, m.Deadline) {
		return false, nil
	}
	if c.stopped(m.Dport) {
		c.shelveLast(p)
	}
	if c.npaths == 0 {
		c.early = true
	}
	if p.state == Up {
		return !p.filling && p.ready(c), nil
	}
	c.wantLink(now, p)
	return false, nil
}

// Admits tells whether Enqueue would take a message to port dport, or fail
// for good.
func (c *Conn) Admits(dport uint16) bool {
	return c.closed || c.barred || c.charged() < c.cfg.Budget && !c.stopped(dport)
}

func (c *Conn) push(p *path, m *Message, flags uint32) {
	length := len(m.Payload)
	head := wire.HeaderSize
	if m.Body != nil {
		length = len(m.Body.B)
	} else {
		head += length
	}
	if m.Notify {
		flags |= entryNotify
	}
	if m.Failure {
		flags |= entryFailure
	}
	ck, off := p.log.room(head)
	b := ck.b.B[off : off+head]
	wire.PutData(b, 0, uint32(length), m.Sport, m.Dport)
	if m.Body == nil {
		copy(b[wire.HeaderSize:], m.Payload)
	}
	token := m.Token
	if m.Extended() || m.Op != nil {
		var more uint32
		token, more = c.extend(p, m, b)
		flags |= more
	}
	*p.q.push() = entry{chunk: ck, off: uint32(off), body: m.Body, acct: m.Account, token: token,
		length: uint32(length), sport: m.Sport, dport: m.Dport, flags: flags}
	c.queued += wire.HeaderSize + length + entryOverhead
	p.q.unsent += wire.HeaderSize + length
}

// MapChanged says that the congestion map of our address has changed. The
// lowest path that is up sends it, and so does every other whose last map may
// still be under way: that one would undo the change if it came later.
func (c *Conn) MapChanged() {
	sent := false
	for i := range c.paths {
		if p := &c.paths[i]; p.state == Up && (!sent || p.answers <= p.mapAt) {
			p.mapPending, sent = true, true
			c.act(Action{Kind: Transmit, Path: i})
		}
	}
}

// Close forgets everything: queued messages are canceled, links closed. The
// Conn takes no more input but LinkClosed and the results of dials, and gives
// no more actions after the ones that close its links.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.closed = true
	for i := range c.paths {
		p := &c.paths[i]
		if p.dialing {
			c.act(Action{Kind: CancelDial, Path: i})
		}
		if p.link != 0 {
			c.act(Action{Kind: CloseLink, Link: p.link})
		}
		p.redialAt = time.Time{}
		if !p.filling {
			c.discard(p)
		}
	}
	for _, h := range c.held {
		c.act(Action{Kind: CloseLink, Link: h.link})
	}
	c.held = nil
	c.act(Action{Kind: WakeAll})
}

// discard settles every message of a path as canceled.
func (c *Conn) discard(p *path) {
	c.closeRanks(p)
	c.unshelveAll(p)
	p.nextOff, p.bound, p.hold = 0, false, false
	c.settle(p, p.q.first, p.q.tail, func(*entry) (Status, bool) { return Canceled, true })
	p.log.shrink()
}
