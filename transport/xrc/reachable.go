package xrc

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/xrc/objects"
)

// reachable is what the requests of a peer's channels find: the domains in which the peer has targets
// here, and these targets. Event loops read it for each message without a lock; changes are made under peer.mu,
// and cost no more than the targets of one domain.
type reachable struct {
	scopes atomic.Pointer[[]*scope] // nil: there were no targets yet
}

// scope is a domain that a peer has targets in.
type scope struct {
	tag      uint64
	carriers atomic.Pointer[[]*carrier] // by the numbers of their targets
	accepts  atomic.Uint32              // mr.Rights that one of the targets at least accepts: a Write, read or atomic names none of them
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

// search is where a target is, or would be, among those of the domain.
func (s *scope) search(number uint32) (list []*carrier, at int, ok bool) {
	list = *s.carriers.Load()
	at, ok = slices.BinarySearchFunc(list, number, func(c *carrier, n uint32) int { return cmp.Compare(c.ref.Number, n) })
	return list, at, ok
}

// target is the target of a number, nil if the peer has none.
func (r *reachable) target(number uint32) *carrier {
	for _, s := range r.all() {
		if list, at, ok := s.search(number); ok {
			return list[at]
		}
	}
	return nil
}

// addLocked adds a target that may be there already.
func (r *reachable) addLocked(c *carrier) {
	s := r.scopeOf(c)
	if s == nil {
		s = &scope{tag: c.target.DomainTag()}
		s.set([]*carrier{c})
		scopes := append(slices.Clone(r.all()), s)
		r.scopes.Store(&scopes)
		return
	}
	switch list, at, ok := s.search(c.ref.Number); {
	case ok:
		list = slices.Clone(list)
		list[at] = c
		s.set(list)
	case at == len(list):
		s.set(append(list, c)) // readers of the list before do not look behind its end
	default:
		s.set(slices.Insert(slices.Clone(list), at, c))
	}
}

func (r *reachable) removeLocked(c *carrier) {
	s := r.scopeOf(c)
	if s == nil {
		return
	}
	list, at, ok := s.search(c.ref.Number)
	if !ok || list[at] != c {
		return
	}
	s.set(slices.Delete(slices.Clone(list), at, at+1))
	if len(list) == 1 {
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
			q, err := d.Find(number, c.target)
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
