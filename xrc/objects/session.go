package objects

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport/iwarp"
)

// Session is a process, or whoever else owns objects: the daemon has one, too,
// for what it does in its own name. Its methods may be called concurrently.
type Session struct {
	dev     *Device
	id      uint64 // tells the session from all others that the device ever had
	name    string
	user    User
	limits  Limits
	unbound bool
	base    *iwarp.PD // PDs of the session are inside of it
	events  eventQueue

	// Under Device.mu.
	ending  bool
	used    Limits             // objects counted against limits
	share   *share             // what the user has
	peers   map[netip.Addr]int // targets of used that were made for initiators of a host
	objects map[object]uint64  // order in which each object was made
	dead    list.List          // registrations with targets in StateError: *Handle, oldest first
	serial  uint64
}

// object is what a session owns and its end destroys.
type object interface {
	// end destroys it as its owner would.
	end(ctx context.Context) error
	// abandonLocked forgets it though something still uses it.
	abandonLocked()
	String() string
}

// User is whose a session is. Targets are modified by sessions of the user who made them.
type User struct {
	UID   uint32
	Place uint64 // tells users with the same UID apart
}

// SessionConfig describes a session. The zero value is usable.
type SessionConfig struct {
	Name   string // name in the log
	User   User
	Limits Limits // fields of zero are those of Config.Limits

	Unbound bool // Config.Shares do not bind the session, which counts all the same
}

// NewSession makes a session without objects. ErrSessions if there are too many.
func (d *Device) NewSession(c SessionConfig) (*Session, error) {
	c.Limits = c.Limits.withDefaults(d.config.Limits)
	if err := errors.Join(c.Limits.validate()...); err != nil {
		return nil, err
	}
	s := &Session{dev: d, name: c.Name, user: c.User, limits: c.Limits, unbound: c.Unbound, base: d.config.Base, objects: make(map[object]uint64)}
	s.events.limit = c.Limits.Events
	d.mu.Lock()
	defer d.unlock()
	switch {
	case d.closed:
		return nil, ErrClosed
	case len(d.sessions) >= d.config.Sessions:
		return nil, ErrSessions
	}
	d.sessionID++
	s.id = d.sessionID
	d.sessions[s] = struct{}{}
	s.share = d.joinLocked(s.user)
	return s, nil
}

// Close is the end of the session, by its own will or by the death of its
// process: what it has is destroyed, newest first, as often as that makes
// progress, and events it has not acknowledged are discarded. Targets that
// other sessions are registered with live on.
//
// Memory of the session that is being read or written is waited for as long as ctx
// lets; then the error is mr's, and that memory stays in use until that is done.
// Whatever else could not be destroyed is forgotten, logged as a leak, and
// reported. Further calls return ErrClosed.
func (s *Session) Close(ctx context.Context) error {
	d := s.dev
	d.mu.Lock()
	if s.ending {
		d.unlock()
		return ErrClosed
	}
	s.ending = true
	d.unlock()
	s.events.close()

	var left []object
	var errs []error
	for progress := true; progress; {
		progress = false
		left, errs = nil, nil
		for _, o := range s.newestFirst() {
			if err := o.end(ctx); err != nil {
				left, errs = append(left, o), append(errs, err)
			} else {
				progress = true
			}
		}
		progress = progress && len(left) > 0
	}
	d.mu.Lock()
	defer d.unlock()
	var leaks []error
	for i, o := range left {
		if _, ok := s.objects[o]; !ok {
			continue // another call has destroyed the object meanwhile
		}
		o.abandonLocked()
		delete(s.objects, o)
		leaks = append(leaks, errs[i])
		d.leaks++
		name, err := o.String(), errs[i]
		d.later(func() {
			d.log.Error("object of an ended session left behind", zap.String("session", s.name), zap.String("object", name), zap.Error(err))
		})
	}
	d.eventsLost += s.events.lostCount()
	delete(d.sessions, s)
	s.share.leaveLocked()
	return errors.Join(leaks...)
}

func (s *Session) newestFirst() []object {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	list := make([]object, 0, len(s.objects))
	for o := range s.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(s.objects[b], s.objects[a]) })
	return list
}

// liveLocked tells whether the session may make something.
func (s *Session) liveLocked() error {
	if s.ending || s.dev.closed {
		return ErrClosed
	}
	return nil
}

func (s *Session) addLocked(o object) {
	s.serial++
	s.objects[o] = s.serial
}

// Used tells how much of its limits the session holds. Events is not counted here.
func (s *Session) Used() Limits {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.used
}
