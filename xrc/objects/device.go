package objects

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
)

// Device is what a host has of XRC: the numbers of its queue pairs and shared
// receive queues, its domains, sessions and peers. A daemon has one for each
// of its lives; its methods may be called concurrently.
type Device struct {
	config      Config
	incarnation uint64
	log         *zap.Logger
	srqs        srqTable // read by the data path without a lock

	mu lockorder.Mutex[Device]
	// Under mu.
	rand       *rand.Rand
	closed     bool
	sessions   map[*Session]struct{}
	shares     map[User]*share
	domains    map[inode]*xrcd    // domains of files
	xrcds      map[*xrcd]struct{} // all domains
	queues     map[*SRQ]struct{}  // all shared receive queues
	targets    map[uint32]*Target
	initiators map[uint32]*Initiator
	services   map[uint64]*Service
	hosts      map[netip.Addr]*host
	numbers    [KindCQ + 1]numbers
	sinks      numbers // numbers of shared receive queues with a sink
	generation uint32  // generation of the last object numbered; no generation is given out twice
	domainTag  uint64  // tag of the last domain
	sessionID  uint64  // ID of the last session
	suspended  deadlines
	errored    deadlines
	leaks      uint64   // objects that sessions left behind in use
	eventsLost uint64   // events lost by sessions that ended
	pending    []func() // functions that unlock calls without the lock
}

// New makes a device without objects.
func New(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	d := &Device{
		config:     c,
		log:        c.Logger,
		sessions:   make(map[*Session]struct{}),
		shares:     make(map[User]*share),
		domains:    make(map[inode]*xrcd),
		xrcds:      make(map[*xrcd]struct{}),
		queues:     make(map[*SRQ]struct{}),
		targets:    make(map[uint32]*Target),
		initiators: make(map[uint32]*Initiator),
		services:   make(map[uint64]*Service),
		hosts:      make(map[netip.Addr]*host),
	}
	seed := c.Seed
	if seed == 0 {
		var b [8]byte
		crand.Read(b[:]) // never fails
		seed = binary.NativeEndian.Uint64(b[:])
	}
	d.rand = rand.New(rand.NewPCG(seed, 0))
	d.generation = d.rand.Uint32()
	if d.incarnation = c.Incarnation; d.incarnation == 0 {
		d.incarnation = d.rand.Uint64() | 1
	}
	d.numbers[KindSRQ].init(firstSRQ, firstSink, &c)
	d.sinks.init(firstSink, firstPort, &c)
	d.numbers[KindInitiator].init(firstInitiator, firstTarget, &c)
	d.numbers[KindTarget].init(firstTarget, maxNumber, &c)
	d.numbers[KindCQ].init(1, maxNumber, &c)
	return d, nil
}

// Incarnation tells this life of the daemon from others. All numbers and
// generations are relative to it.
func (d *Device) Incarnation() uint64 { return d.incarnation }

// Close is the end of this incarnation: each session hears EventDeviceFatal,
// all queue pairs are destroyed and their connections closed. The sessions
// remain so far that they can read their events and close.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	d.closed = true
	for s := range d.sessions {
		s.events.push(Event{Kind: EventDeviceFatal, Object: Ref{Kind: KindDevice}})
	}
	for _, t := range d.targets {
		t.destroyLocked(ErrClosed)
	}
	for _, i := range d.initiators {
		i.destroyLocked(ErrClosed)
	}
	for id, v := range d.services {
		delete(d.services, id)
		v.dead = true
	}
	d.unlock()
	return nil
}

// later has unlock call f: connections, logs and whatever else is not ours is
// never touched under the lock.
func (d *Device) later(f func()) { d.pending = append(d.pending, f) }

// unlock ends a critical section and does what it left behind, before the call
// that was served returns.
func (d *Device) unlock() {
	late := d.pending
	d.pending = nil
	d.mu.Unlock()
	for _, f := range late {
		f()
	}
}

// numberLocked gives an object its name.
func (d *Device) numberLocked(k Kind) (Ref, error) { return d.nameLocked(k, &d.numbers[k]) }

func (d *Device) nameLocked(k Kind, from *numbers) (Ref, error) {
	n, ok := from.take(d.config.Now())
	if !ok {
		return Ref{}, ErrLimit
	}
	return Ref{k, n, d.nextGeneration()}, nil
}

func (d *Device) freeLocked(r Ref) {
	from := &d.numbers[r.Kind]
	if r.Kind == KindSRQ && HasSink(r.Number) {
		from = &d.sinks
	}
	from.give(r.Number, d.config.Now())
}

// nextGeneration never returns 0, which stands for no object.
func (d *Device) nextGeneration() uint32 {
	if d.generation++; d.generation == 0 {
		d.generation = 1
	}
	return d.generation
}
