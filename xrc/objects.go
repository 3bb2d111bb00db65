package xrc

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// object is what all objects have in common.
type object struct {
	s   *Session
	n   uint32
	ref objects.Ref
}

func (o *object) abandon() {}

// Ref names the object in events.
func (o *object) Ref() objects.Ref { return o.ref }

// Domain is a handle of an XRC domain.
type Domain struct {
	object
	tag uint64
}

// OpenDomain opens the domain of a file, or makes one, as ibv_open_xrcd does; without a file it
// makes a private one. flags are os.O_CREATE and os.O_EXCL. Whoever has the file open has access.
// The daemon keeps the file, which may be closed and removed.
func (s *Session) OpenDomain(f *os.File, flags int) (*Domain, error) {
	var files []*os.File
	if f != nil {
		files = append(files, f)
	}
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCOpenDomain, Flags: flags}, files...)
	if err != nil {
		return nil, err
	}
	d := &Domain{object{s: s, n: r.Object}, r.Tag}
	s.add(d.n, d, objects.Ref{})
	return d, nil
}

// Tag tells the domain from all others of the daemon.
func (d *Domain) Tag() uint64 { return d.tag }

// Close closes the handle: EBUSY while queues, registrations or services made through it exist.
func (d *Domain) Close() error { return d.s.destroy(context.Background(), d.n, d.ref) }

// PD is a protection domain.
type PD struct{ object }

// AllocPD makes a protection domain.
func (s *Session) AllocPD() (*PD, error) {
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCAllocPD})
	if err != nil {
		return nil, err
	}
	p := &PD{object{s: s, n: r.Object}}
	s.add(p.n, p, objects.Ref{})
	return p, nil
}

// Close frees the domain: EBUSY while something of it exists.
func (p *PD) Close() error { return p.s.destroy(context.Background(), p.n, p.ref) }

// Region is registered memory.
type Region struct {
	object
	mem *datagram.Memory
	at  uint32
	key mr.Key
}

// Alloc returns n bytes of registered memory, up to 1 MiB, all 0.
func (p *PD) Alloc(n int, rights mr.Rights) (*Region, error) {
	mem, at, err := p.s.host.Alloc(n)
	if err != nil {
		return nil, err
	}
	r, err := p.s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCRegister, PD: p.n, Offset: at, Length: uint32(n), Access: uint32(rights)})
	if err != nil {
		mem.Release()
		return nil, err
	}
	m := &Region{object{s: p.s, n: r.Object}, mem, at, mr.Key(r.Number)}
	p.s.add(m.n, m, objects.Ref{})
	return m, nil
}

// Bytes is the memory.
func (m *Region) Bytes() []byte { return m.mem.B }

// Key is by which requests name the region, here and at peers.
func (m *Region) Key() mr.Key { return m.key }

// Addr is the address of the first byte.
func (m *Region) Addr() uint64 { return uint64(m.at) }

// SGE names n bytes at offset off.
func (m *Region) SGE(off, n int) iwarp.SGE {
	return iwarp.SGE{Key: m.key, Addr: m.Addr() + uint64(off), Len: uint32(n)}
}

// Close ends the region. Nobody touches the memory any more when it returns, and the program may not
// either.
func (m *Region) Close() error {
	err := m.s.destroy(context.Background(), m.n, m.ref)
	if err == nil {
		m.mem.Release()
	}
	return err
}

// ServiceAttr describes a service: by its id, peers find a domain and a shared receive queue.
type ServiceAttr struct {
	ID     uint64
	Domain *Domain
	SRQ    *SRQ           // nil: peers only connect
	Hosts  []netip.Prefix // hosts that may ask; nil: all
	Access mr.Rights      // what requests may do that come by targets made for it
}

// Service is an advertisement. Registrations that peers have by it end with it.
type Service struct{ object }

// Advertise binds a service id to a domain: EADDRINUSE if somebody has.
func (s *Session) Advertise(a ServiceAttr) (*Service, error) {
	if a.Domain == nil {
		return nil, datagram.ErrInvalid
	}
	c := &ipc.XRCCall{Op: ipc.XRCAdvertise, Service: a.ID, Domain: a.Domain.n, Hosts: a.Hosts, Access: uint32(a.Access)}
	if a.SRQ != nil {
		c.SRQ = a.SRQ.n
	}
	r, err := s.call(context.Background(), c)
	if err != nil {
		return nil, err
	}
	v := &Service{object{s: s, n: r.Object}}
	s.add(v.n, v, objects.Ref{})
	return v, nil
}

// Withdraw ends the service. It waits for events of its targets to be acknowledged.
func (v *Service) Withdraw(ctx context.Context) error { return v.s.destroy(ctx, v.n, v.ref) }

// Target is a handle of a target.
type Target struct {
	object
	number uint32
}

// CreateTarget makes a target in a domain, with the session registered, and returns its number.
func (s *Session) CreateTarget(d *Domain) (number uint32, err error) {
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCCreateTarget, Domain: d.n})
	if err != nil {
		return 0, err
	}
	return r.Target, nil
}

// OpenTarget opens a handle of a target, as ibv_open_qp does. Each handle counts.
func (s *Session) OpenTarget(d *Domain, number uint32) (*Target, error) {
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCOpenTarget, Domain: d.n, Target: number})
	if err != nil {
		return nil, err
	}
	t := &Target{object{s: s, n: r.Object}, number}
	s.add(t.n, t, objects.Ref{})
	return t, nil
}

// Number is the target's number.
func (t *Target) Number() uint32 { return t.number }

// Destroy gives the handle up; the target goes with the last handle or registration of all.
func (t *Target) Destroy(ctx context.Context) error { return t.s.destroy(ctx, t.n, t.ref) }

// Register registers the session with a target, by number: once, however often it is called.
func (s *Session) Register(d *Domain, number uint32) (objects.Info, error) {
	return s.info(&ipc.XRCCall{Op: ipc.XRCRegisterWith, Domain: d.n, Target: number})
}

// Unregister drops the registration. With the last one of all the target is destroyed before the
// call returns.
func (s *Session) Unregister(ctx context.Context, d *Domain, number uint32) error {
	_, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCUnregister, Domain: d.n, Target: number})
	return err
}

// QueryTarget tells what a target is like.
func (s *Session) QueryTarget(d *Domain, number uint32) (objects.Info, error) {
	return s.info(&ipc.XRCCall{Op: ipc.XRCQueryTarget, Domain: d.n, Target: number})
}

func (s *Session) info(c *ipc.XRCCall) (info objects.Info, err error) {
	r, err := s.call(context.Background(), c)
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(r.Info, &info); err != nil {
		return info, err
	}
	if r.Cause != "" {
		info.Cause = errors.New(r.Cause)
	}
	return info, nil
}

// ModifyTarget changes the attributes of a target that m names.
func (s *Session) ModifyTarget(d *Domain, number uint32, a objects.Attr, m objects.Mask) error {
	b, err := json.Marshal(&a)
	if err != nil {
		return err
	}
	_, err = s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCModifyTarget, Domain: d.n, Target: number, Attr: b, Mask: uint32(m)})
	return err
}
