package driver

import (
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// Config is what a Driver is told once.
type Config struct {
	Core    conn.Config // Begins is the owner's method of that name
	Owner   Owner
	Runtime Runtime
	Pool    *buf.Pool
	Burst   int // octets that a stream of messages collects before they are written
}

type (
	driverMu      *Driver
	driverTelling *Driver
)

// Driver drives one connection.
type Driver struct {
	owner Owner
	rt    Runtime
	pool  *buf.Pool
	burst int

	arrivals   atomic.Uint32 // grows with each burst received
	epoch      atomic.Uint32 // Core.Epoch
	generation atomic.Uint32 // Core.PeerGeneration
	gone       atomic.Bool

	// telling is taken under mu by who has fates to tell, and given back when the owner knows
	// them: a goroutine that is held up in between is not overtaken by the fates of later messages.
	telling lockorder.Mutex[driverTelling]

	mu lockorder.Mutex[driverMu] // guards the fields below
	// Core is the connection's core. It is used with the lock.
	Core     *conn.Conn
	asks     uint8 // Core.Asks, as told to the receivers
	path     [conn.MaxPaths]path
	links    map[conn.LinkID]transport.Link
	nextLink conn.LinkID
	timer    Timer // fires at Core.Deadline
	timerAt  time.Time
	acks     ackWatch
	wants    uint8            // bit i: path i has messages appended, and nobody is known to write them
	parting  chan struct{}    // wakes who waits for links to end or for answers; nil: nobody does
	holds    map[uint16]uint8 // bit i: path i says that the port takes no messages
}

// path is what the driver keeps of a path.
type path struct {
	in      conn.Inbound  // the receiver's
	refused Refusals      // the receiver's
	nextRX  atomic.Uint64 // one more than the last sequence number received
	asked   atomic.Bool   // the core wants to hear when something arrives on the link

	link   transport.Link
	id     conn.LinkID
	caps   transport.Caps
	cancel func() // cancels the dial under way
	tx     transmitter
	ended  *linkEnd // the link's end, if it was reported while a writer was at work or operations were under way
	ops    int      // operations that the link has not finished

	claimed int // octets claimed of a link that reserves, for messages that were picked and are not written
	history History
}

type linkEnd struct {
	cause error
	acked uint64
}

// New makes a driver whose paths have no links.
func New(cfg Config) *Driver {
	d := &Driver{owner: cfg.Owner, rt: cfg.Runtime, pool: cfg.Pool, burst: cfg.Burst, links: make(map[conn.LinkID]transport.Link)}
	cfg.Core.Begins = func(i int, o *conn.Operation) bool {
		begins := d.owner.Begins(i, o)
		if begins {
			d.path[i].ops++
		}
		return begins
	}
	d.Core = conn.New(cfg.Core)
	for i := range d.path {
		d.path[i].tx.phase = full // there is no link
	}
	d.Sync()
	return d
}

// Lock takes the lock.
func (d *Driver) Lock() { d.mu.Lock() }

// Unlock gives the lock back, and does nothing of what the core has asked for: see Commit.
func (d *Driver) Unlock() { d.mu.Unlock() }

// Commit gives the lock back, writes what was queued, unless it is left to collect, and
// does what the core has asked for.
func (d *Driver) Commit() { d.CommitWithin(inlineBytes) }

// CommitWithin is Commit for a caller who has not the time to write more than about limit octets:
// the flusher writes the rest.
func (d *Driver) CommitWithin(limit int) {
	if w := d.dueLocked(); w >= 0 {
		d.mu.Unlock()
		d.write(w, limit)
		return
	}
	d.release(nil)
}

// release gives the lock back and does what the core has asked for. On the event loop kick
// collects the paths to transmit on, for the end of the burst.
func (d *Driver) release(kick *[conn.MaxPaths]bool) {
	after := d.owner.Committing()
	if !d.Core.HasOutput() && !after {
		d.mu.Unlock()
		return
	}
	var (
		acts  [16]conn.Action
		freed [16]*conn.Account
		fates [16]conn.Fate
	)
	as := d.Core.TakeActions(acts[:0])
	fs := d.Core.TakeFreed(freed[:0])
	ft := d.Core.TakeFates(fates[:0])
	d.armLocked()
	if len(ft) > 0 {
		d.telling.Lock()
	}
	d.mu.Unlock()
	for _, a := range fs {
		d.owner.Freed(a)
	}
	if len(ft) > 0 {
		for i, f := range ft {
			d.owner.Fate(f, i == len(ft)-1 || ft[i+1].Account != f.Account)
		}
		d.telling.Unlock()
	}
	for _, a := range as {
		if a.Kind == conn.Transmit && kick != nil {
			kick[a.Path] = true
			continue
		}
		d.perform(a)
	}
	if after {
		d.owner.Committed()
	}
}

func (d *Driver) perform(a conn.Action) {
	switch a.Kind {
	case conn.Dial:
		d.dial(a.Path)
	case conn.CancelDial:
		d.mu.Lock()
		cancel := d.path[a.Path].cancel
		d.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case conn.Start:
		d.start(a.Path, a.Link)
	case conn.CloseLink:
		d.closeLink(a.Link)
	case conn.Transmit:
		d.Transmit(a.Path)
	case conn.WakeAll:
		d.owner.WakeAll()
	}
}

// Enqueue hands a message to the core, with the lock. Commit is to follow.
func (d *Driver) Enqueue(m *conn.Message) error {
	i := d.Core.PathFor(m.Sport)
	var now time.Time // the core wants it of messages with a time limit
	limited := !m.Deadline.IsZero()
	if limited {
		now = d.rt.Now()
	}
	size := m.Size() // the payload of a message that has expired is released by Enqueue
	ready, err := d.Core.Enqueue(now, i, m)
	if err != nil {
		return err
	}
	if limited {
		d.armLocked()
	}
	t := &d.path[i].tx
	t.since += size
	t.count++
	if ready {
		d.wants |= 1 << i
	}
	return nil
}

// Arm sets the timer for the next deadline, with the lock. Who has given the core, or the
// owner, something that must not wait calls it.
func (d *Driver) Arm() { d.armLocked() }

func (d *Driver) armLocked() {
	d.needLocked()
	if asks := d.Core.Asks(); asks != d.asks {
		d.asks = asks
		for i := range d.path {
			d.path[i].asked.Store(asks>>i&1 != 0)
		}
	}
	at := d.Core.Deadline()
	if next := d.owner.Deadline(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
		at = next
	}
	if at.Equal(d.timerAt) {
		return
	}
	d.timerAt = at
	switch {
	case at.IsZero():
		d.timer.Stop()
	case d.timer == nil:
		d.timer = d.rt.AfterFunc(at.Sub(d.rt.Now()), d.tick)
	default:
		d.timer.Reset(at.Sub(d.rt.Now()))
	}
}

func (d *Driver) needLocked() { d.Core.Need(d.owner.Needed()) }

func (d *Driver) tick() {
	d.mu.Lock()
	d.timerAt = time.Time{}
	now := d.rt.Now()
	if !d.gone.Load() {
		d.Core.Tick(now)
	}
	d.owner.Tick(now)
	d.armLocked()
	d.Commit()
}

// Sync follows a change of the core that concerns the peer's generation, with the lock.
func (d *Driver) Sync() {
	d.epoch.Store(d.Core.Epoch())
	d.generation.Store(d.Core.PeerGeneration())
}

// Epoch is the core's epoch, for operations.
func (d *Driver) Epoch() uint32 { return d.epoch.Load() }

// Gone tells whether Close was called.
func (d *Driver) Gone() bool { return d.gone.Load() }

// Close ends the connection. Its links report their ends later.
func (d *Driver) Close() {
	d.mu.Lock()
	if d.gone.Swap(true) {
		d.mu.Unlock()
		return
	}
	d.Core.Close()
	for i := range d.path {
		d.path[i].tx.stop()
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.acks.stop()
	d.release(nil)
}
