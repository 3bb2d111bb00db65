package xrc

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/xrc/objects"
)

// reachable is what the requests of a peer's channels find: the targets that the peer has here, and
// the domains of these targets. Event loops read it for each message without a lock; changes are made under
// peer.mu, and cost no more than the targets of one domain.
type reachable struct {
	targets sync.Map                 // *carrier by the number of its target
	scopes  atomic.Pointer[[]*scope] // nil: there were no targets yet
}

// scope is a domain that a peer has targets in.
type scope struct {
	tag      uint64
	carriers atomic.Pointer[[]*carrier]
	accepts  atomic.Uint32 // mr.Rights that one of the targets at least accepts: a Write, read or atomic names none of them
}

// all are the domains.
func (r *reachable) all() []*scope {
	if list := r.scopes.Load(); list != nil {
		return *list
	}
	return nil
}

func (r *reachable) scopeOf(c *carrier) *scope {
	tag := c.target.DomainTag()
	for _, s := range r.all() {
		if s.tag == tag {
			return s
		}
	}
	return nil
}

// addLocked adds a target that may be there already.
func (r *reachable) addLocked(c *carrier) {
	if r.targets.CompareAndSwap(c.ref.Number, c, c) {
		r.changedLocked(c)
		return
	}
	r.targets.Store(c.ref.Number, c)
	s := r.scopeOf(c)
	if s == nil {
		s = &scope{tag: c.target.DomainTag()}
		s.set([]*carrier{c})
		scopes := append(slices.Clone(r.all()), s)
		r.scopes.Store(&scopes)
		return
	}
	s.set(append(*s.carriers.Load(), c)) // readers of the list before do not look behind its end
}

func (r *reachable) removeLocked(c *carrier) {
	if !r.targets.CompareAndDelete(c.ref.Number, c) {
		return
	}
	s := r.scopeOf(c)
	left := slices.DeleteFunc(slices.Clone(*s.carriers.Load()), func(o *carrier) bool { return o == c })
	s.set(left)
	if len(left) == 0 {
		scopes := slices.DeleteFunc(slices.Clone(r.all()), func(o *scope) bool { return o == s })
		r.scopes.Store(&scopes)
	}
}

// changedLocked follows a change of what a target accepts.
func (r *reachable) changedLocked(c *carrier) {
	if s := r.scopeOf(c); s != nil {
		s.set(*s.carriers.Load())
	}
}

func (s *scope) set(list []*carrier) {
	var accepts mr.Rights
	for _, c := range list {
		accepts |= c.target.Accepts()
	}
	s.carriers.Store(&list)
	s.accepts.Store(uint32(accepts))
}

// find finds a queue of a domain that the peer has a live target in, and which rights a Write, read or
// atomic that names the queue may use.
func (r *reachable) find(d *objects.Device, number uint32) (*objects.SRQ, mr.Rights) {
	for _, s := range r.all() {
		for _, c := range *s.carriers.Load() {
			q, err := d.Resolve(number, c.target)
			if err == nil {
				return q, mr.Rights(s.accepts.Load())
			}
			if err == objects.ErrUnknownSRQ {
				break // the other targets of this domain do not find the queue either
			}
		}
	}
	return nil, 0
}
