package objects

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rds-go/rds/mr"
)

// Status is the answer to a peer that asks for a service.
type Status uint8

// The answers.
const (
	StatusFound        Status = iota
	StatusNotFound            // nobody advertises the service
	StatusWrongService        // the service hands out no shared receive queue
	StatusRejected            // the service is not for this host, or not with these parameters
	StatusBusy                // a limit was reached; may succeed later
	StatusNotReady            // something that the request names is gone or going: start from scratch
)

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status-%d", uint8(s))
}

var statusNames = [...]string{"found", "not-found", "wrong-service", "rejected", "busy", "not-ready"}

// ServiceAttr describes a service: by its id, peers find a domain and a shared
// receive queue without the application having a part in it.
type ServiceAttr struct {
	ID     uint64
	Domain *Domain
	SRQ    *SRQ           // a queue of the session, in the domain; nil if peers only connect
	Hosts  []netip.Prefix // hosts that may ask; nil: every host
	Access mr.Rights      // what requests may do that come by targets made for the service
	Ended  func()         // called once, without a lock, when the id is free again; nil: nothing is
}

// Service is a session's advertisement. It is a reference to the domain like
// others, and so are the registrations with targets that peers had made by it:
// they are the session's, and end with the service.
type Service struct {
	session *Session
	attr    ServiceAttr

	// Under Device.mu.
	targets map[*Target]*Handle
	busy    bool
	dead    bool
}

// Advertise binds a service id to a domain. ErrServiceInUse if it is bound.
func (s *Session) Advertise(a ServiceAttr) (*Service, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	x, err := s.domainLocked(a.Domain)
	switch {
	case err != nil:
		return nil, err
	case a.Access&^accessRights != 0:
		return nil, ErrAttribute
	case a.SRQ != nil && (a.SRQ.session != s || a.SRQ.gone):
		return nil, ErrForeign
	case a.SRQ != nil && a.SRQ.xrcd != x:
		return nil, ErrAttribute
	case d.services[a.ID] != nil:
		return nil, ErrServiceInUse
	case s.used.Services >= s.limits.Services:
		return nil, ErrLimit
	}
	a.Hosts = slices.Clone(a.Hosts)
	v := &Service{session: s, attr: a, targets: make(map[*Target]*Handle)}
	d.services[a.ID] = v
	a.Domain.refs++
	s.used.Services++
	s.addLocked(v)
	return v, nil
}

// SetBusy makes peers be told to try later, or no longer.
func (v *Service) SetBusy(busy bool) {
	v.session.dev.mu.Lock()
	defer v.session.dev.unlock()
	v.busy = busy
}

// Withdraw ends the service and the registrations that peers had made by it. It
// waits for the session's events of those targets to be acknowledged.
func (v *Service) Withdraw(ctx context.Context) error { return v.end(ctx) }

func (v *Service) end(ctx context.Context) error {
	d := v.session.dev
	for {
		d.mu.Lock()
		if v.attr.Domain == nil {
			d.unlock()
			return ErrForeign
		}
		v.closeLocked() // makes no more targets
		if len(v.targets) == 0 {
			v.abandonLocked()
			d.unlock()
			return nil
		}
		var h *Handle
		for _, h = range v.targets {
			break
		}
		d.unlock()
		if err := h.end(ctx); err != nil && err != ErrForeign {
			return err
		}
	}
}

func (v *Service) closeLocked() {
	if d := v.session.dev; !v.dead {
		v.dead = true
		delete(d.services, v.attr.ID)
		if v.attr.Ended != nil {
			d.later(v.attr.Ended)
		}
	}
}

func (v *Service) abandonLocked() {
	v.closeLocked()
	for _, h := range v.targets {
		h.abandonLocked()
	}
	v.attr.Domain.refs--
	v.attr.Domain = nil
	v.session.used.Services--
	delete(v.session.objects, v)
}

func (v *Service) String() string { return fmt.Sprintf("service %#x", v.attr.ID) }

// findLocked is the service for a peer that asks.
func (d *Device) findLocked(id uint64, from netip.Addr) (*Service, Status) {
	v := d.services[id]
	switch {
	case d.closed:
		return nil, StatusNotReady
	case v == nil:
		return nil, StatusNotFound
	case v.attr.Hosts != nil && !slices.ContainsFunc(v.attr.Hosts, func(p netip.Prefix) bool { return p.Contains(from.Unmap()) }):
		return nil, StatusRejected
	case v.session.ending, v.attr.SRQ != nil && v.attr.SRQ.gone:
		return nil, StatusNotReady
	case v.busy:
		return nil, StatusBusy
	}
	return v, StatusFound
}

// Answer is what a service query finds.
type Answer struct {
	SRQN uint32
	Tag  uint64 // Domain.Tag
}

// Lookup answers a peer's query for the queue behind a service. It makes no
// connection and holds nothing.
func (d *Device) Lookup(id uint64, from netip.Addr) (Answer, Status) {
	d.mu.Lock()
	defer d.unlock()
	v, st := d.findLocked(id, from)
	if st != StatusFound {
		return Answer{}, st
	}
	return v.answerLocked()
}

func (v *Service) answerLocked() (Answer, Status) {
	if v.attr.SRQ == nil {
		return Answer{}, StatusWrongService
	}
	return Answer{v.attr.SRQ.ref.Number, v.attr.Domain.xrcd.tag}, StatusFound
}
