package iwarp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// Device is a software RNIC: event loops, a table of memory regions, and the
// numbers of its queue pairs.
type Device struct {
	cfg     Config
	regions *mr.Device
	own     bool // regions is ours to close
	engine  gnetloop.Stack
	pool    buf.Pool
	stats   counters
	nextQPN atomic.Uint32
	wg      sync.WaitGroup // goroutines that end queue pairs of a lost completion queue

	mu     lockorder.Mutex[Device]
	closed bool               // guarded by mu
	qps    map[*QP]struct{}   // guarded by mu
	pds    map[*PD]struct{}   // guarded by mu
	lns    map[*Listener]bool // guarded by mu
}

// Open makes a device with its event loops. Close ends it.
func Open(cfg Config) (*Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d := &Device{cfg: cfg, regions: cfg.Regions, qps: make(map[*QP]struct{}), pds: make(map[*PD]struct{}), lns: make(map[*Listener]bool)}
	if d.regions == nil {
		var err error
		cfg.Memory.Logger = cfg.Logger
		if d.regions, err = mr.New(cfg.Memory); err != nil {
			return nil, err
		}
		d.own = true
	}
	var err error
	if d.engine, err = gnetloop.Open(cfg.loop()); err != nil {
		if d.own {
			_ = d.regions.Close()
		}
		return nil, err
	}
	return d, nil
}

// Close ends everything the device has: listeners, connections (their
// outstanding work requests complete as flushed), queue pairs, regions.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	d.closed = true
	qps, pds, lns := keys(d.qps), keys(d.pds), keys(d.lns)
	d.mu.Unlock()
	for _, l := range lns {
		_ = l.Close()
	}
	err := d.engine.Close() // After Close every stream has heard Closed, and nothing touches memory any more.
	for _, q := range qps {
		_ = q.Close()
	}
	d.wg.Wait()
	for _, p := range pds {
		p.release()
	}
	if d.own {
		if e := d.regions.Close(); err == nil {
			err = e
		}
	}
	return err
}

func keys[K comparable, V any](m map[K]V) []K {
	list := make([]K, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// Regions returns the table of memory regions.
func (d *Device) Regions() *mr.Device { return d.regions }

// PD is a protection domain: a queue pair reaches the regions of its own domain
// only, locally and for its peer.
type PD struct {
	dev    *Device
	domain *mr.Domain
	owner  *mr.Owner
	base   *PD          // has the domain that domain is inside of, see Share; nil: none
	users  atomic.Int32 // queue pairs, regions, shared receive queues, and what Share has made
	once   sync.Once
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) { return d.addPD(&PD{dev: d}) }

// Share makes a protection domain inside p, for one of several programs that use queue pairs
// of p. A peer's Write, read or atomic reaches regions of the one protection domain that
// SharedParams.Protection finds; a receive posted in it, and a request for which Owns was
// asked, reaches its own regions only.
func (p *PD) Share() (*PD, error) { return p.dev.addPD(&PD{dev: p.dev, base: p}) }

func (d *Device) addPD(p *PD) (*PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	p.owner = d.regions.NewOwner(mr.OwnerConfig{})
	if p.base == nil {
		p.domain = d.regions.NewDomain()
	} else {
		p.domain = p.base.domain.NewDomain()
		p.base.users.Add(1)
	}
	d.pds[p] = struct{}{}
	return p, nil
}

// Domain is the domain by which the table of regions knows p, for regions that
// are mapped there rather than by RegMR.
func (p *PD) Domain() *mr.Domain { return p.domain }

// Device is the device that the domain was made on.
func (p *PD) Device() *Device { return p.dev }

// Owns tells whether k is the key of a region that was registered here and is live.
func (p *PD) Owns(k mr.Key) bool { return p.owner.Owns(k) }

// Close frees the domain; ErrBusy while it has queue pairs, shared receive queues or regions.
func (p *PD) Close() error {
	if p.users.Load() > 0 {
		return ErrBusy
	}
	p.end()
	return nil
}

// Free is Close for a program that has ended: its regions end with the domain, and when Free
// returns nil no byte of them is read or written any more.
func (p *PD) Free(ctx context.Context) error {
	if err := p.owner.Close(ctx); err != nil {
		return err
	}
	p.end()
	return nil
}

func (p *PD) end() {
	p.dev.mu.Lock()
	delete(p.dev.pds, p)
	p.dev.mu.Unlock()
	p.release()
}

func (p *PD) release() {
	p.once.Do(func() {
		_ = p.owner.Close(context.Background())
		_ = p.domain.Close()
		if p.base != nil {
			p.base.users.Add(-1)
		}
	})
}

// MR is a registered memory region. Its keys work with every connection of the
// domain, and connections come and go without changing them.
type MR struct {
	pd   *PD
	key  mr.Key
	base uint64
	mem  []byte
	once sync.Once
}

// RegMR registers mem, whose first byte gets the address base. The memory must
// stay untouched by others as far as rights allow the peer to write it, until
// Dereg has returned.
func (p *PD) RegMR(mem []byte, rights mr.Rights, base uint64) (*MR, error) {
	key, err := p.owner.Register(mem, mr.Options{Domain: p.domain, Rights: rights, Base: base})
	if err != nil {
		return nil, err
	}
	p.users.Add(1)
	return &MR{pd: p, key: key, base: base, mem: mem}, nil
}

// Key is both the L_Key and the R_Key.
func (m *MR) Key() mr.Key { return m.key }

// Base is the address of the first byte.
func (m *MR) Base() uint64 { return m.base }

// Bytes is the memory.
func (m *MR) Bytes() []byte { return m.mem }

// SGE names n bytes at offset off of the region.
func (m *MR) SGE(off, n int) SGE { return SGE{Key: m.key, Addr: m.base + uint64(off), Len: uint32(n)} }

// Dereg ends the region. When it returns nil no byte of it is read or written
// any more; work requests that name it fail.
func (m *MR) Dereg(ctx context.Context) error {
	err := fmt.Errorf("iwarp: region already deregistered: %w", syscall.EINVAL)
	m.once.Do(func() {
		if err = m.pd.owner.FreeInvalidate(ctx, m.key); errors.Is(err, mr.ErrKey) {
			// The peer has invalidated it (Send with Invalidate).
			err = m.pd.owner.Barrier(ctx)
		}
		m.pd.users.Add(-1)
	})
	return err
}

// counters are the device's; Stats reads them.
type counters struct {
	connects, accepts, rejects    atomic.Uint64
	terminatesSent, terminatesGot atomic.Uint64
	kicks                         atomic.Uint64
	badKeys                       atomic.Uint64
	crcErrors                     atomic.Uint64
}

// Stats are a device's counters.
type Stats struct {
	Connected          uint64 // connections that came up by Connect
	Accepted           uint64 // connections that came up by Accept
	Rejected           uint64 // Requests refused by us
	Crowded            uint64 // set-ups by others that ended because there were too many
	TerminatesSent     uint64
	TerminatesReceived uint64
	Kicks              uint64 // empty Writes sent to wake a peer that had not answered
	AccessErrors       uint64 // requests of peers that their keys did not allow
	CRCErrors          uint64 // connections and set-ups that ended for data that had changed on its way
}

// Stats returns the counters.
func (d *Device) Stats() Stats {
	return Stats{
		Connected:          d.stats.connects.Load(),
		Accepted:           d.stats.accepts.Load(),
		Rejected:           d.stats.rejects.Load(),
		Crowded:            d.engine.Stats().Crowded,
		TerminatesSent:     d.stats.terminatesSent.Load(),
		TerminatesReceived: d.stats.terminatesGot.Load(),
		Kicks:              d.stats.kicks.Load(),
		AccessErrors:       d.stats.badKeys.Load(),
		CRCErrors:          d.stats.crcErrors.Load(),
	}
}

// countChanged counts a set-up that ends with err if its frame had changed on its way.
func (d *Device) countChanged(err error) {
	if errors.Is(err, mpa.ErrSeal) {
		d.stats.crcErrors.Add(1)
	}
}
