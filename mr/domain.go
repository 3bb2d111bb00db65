package mr

import "sync/atomic"

// Domain is a protection domain: a key is good in the domain of its region, and
// in those that this domain is inside of. Its methods may be called concurrently.
type Domain struct {
	dev    *Device
	around *Domain // domain that this one is inside of, nil: none
	// refs is the number of live regions, or closedDomain.
	refs atomic.Int64
}

const closedDomain = -1

// NewDomain makes a protection domain.
func (d *Device) NewDomain() *Domain { return &Domain{dev: d} }

// NewDomain makes a protection domain inside p: requests in p reach its regions, and
// requests in it do not reach those of p.
func (p *Domain) NewDomain() *Domain { return &Domain{dev: p.dev, around: p} }

// holds tells whether d is p or inside of it.
func (p *Domain) holds(d *Domain) bool {
	for d != nil && d != p {
		d = d.around
	}
	return d != nil
}

// Device is the table of regions that the domain is of.
func (p *Domain) Device() *Device { return p.dev }

// Close ends the domain. It returns ErrBusy while regions of it are live, and
// ErrDomain if it is closed already.
func (p *Domain) Close() error {
	switch {
	case p.refs.CompareAndSwap(0, closedDomain):
		return nil
	case p.refs.Load() == closedDomain:
		return ErrDomain
	}
	return ErrBusy
}

// hold counts one more region, unless the domain is closed.
func (p *Domain) hold() bool {
	for {
		n := p.refs.Load()
		if n == closedDomain {
			return false
		}
		if p.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (p *Domain) drop() { p.refs.Add(-1) }
