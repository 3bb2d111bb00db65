package objects

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Objects lists what a device has, each kind in the order of its numbers.
type Objects struct {
	Incarnation   uint64              `json:"incarnation"`
	Sessions      []SessionEntry      `json:"sessions"`
	Domains       []DomainEntry       `json:"domains"`
	Targets       []TargetEntry       `json:"targets"`
	Initiators    []InitiatorEntry    `json:"initiators"`
	SRQs          []SRQEntry          `json:"srqs"`
	Registrations []RegistrationEntry `json:"registrations"`
	NotListed     int                 `json:"not_listed,omitempty"` // objects and registrations beyond the limit of List
}

// SessionEntry is a session, with how many of each kind of object it has.
type SessionEntry struct {
	ID            uint64 `json:"id"`
	Name          string `json:"name"`
	Domains       int    `json:"domains"` // handles of domains
	PDs           int    `json:"pds"`
	CQs           int    `json:"cqs"`
	SRQs          int    `json:"srqs"`
	Initiators    int    `json:"initiators"`
	Targets       int    `json:"targets"` // targets that the session has made
	Registrations int    `json:"registrations"`
	Services      int    `json:"services"`
	Ending        bool   `json:"ending,omitempty"` // the session is being closed
}

// DomainEntry is a domain.
type DomainEntry struct {
	Tag     uint64 `json:"tag"`
	Private bool   `json:"private"`          // the domain goes by no file
	Device  uint64 `json:"device,omitempty"` // device number of the domain's file
	Inode   uint64 `json:"inode,omitempty"`  // inode number of the domain's file
	Refs    int    `json:"refs"`             // handles, shared receive queues and targets
}

// QPEntry is what the entries of targets and initiators have in common.
type QPEntry struct {
	Ref       Ref       `json:"ref"`
	State     State     `json:"state"`
	Peer      Peer      `json:"peer"`
	Connected bool      `json:"connected"` // a connection carries the queue pair
	Suspended bool      `json:"suspended"` // the connection is lost, and waited for until Deadline
	Since     time.Time `json:"since,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
	Cause     string    `json:"cause,omitempty"`   // why State is StateError
	Implied   bool      `json:"implied,omitempty"` // see InitiatorAttr.Implied
}

// TargetEntry is a target. Since is when the target was suspended or went to StateError.
type TargetEntry struct {
	QPEntry
	Domain     uint64 `json:"domain"`              // tag of the domain
	Tombstone  bool   `json:"tombstone,omitempty"` // nothing but the number is left
	Registered int    `json:"registered"`          // sessions registered; Objects.Registrations names them
}

// InitiatorEntry is an initiator. Since is when the initiator was suspended.
type InitiatorEntry struct {
	QPEntry
	Session     uint64 `json:"session"` // ID of the owner
	SessionName string `json:"session_name"`
}

// SRQEntry is a shared receive queue.
type SRQEntry struct {
	Ref         Ref    `json:"ref"`
	Session     uint64 `json:"session"` // ID of the owner
	SessionName string `json:"session_name"`
	Domain      uint64 `json:"domain"`         // tag of the domain
	Sink        bool   `json:"sink,omitempty"` // see SRQAttr.Sink; the fields below are 0
	MaxWR       int    `json:"max_wr,omitempty"`
	Posted      int    `json:"posted,omitempty"` // receives that wait for messages
	Limit       int    `json:"limit,omitempty"`  // 0: not armed
	Failed      bool   `json:"failed,omitempty"` // see SRQ.Fail
}

// RegistrationEntry says that a session is registered with a target.
type RegistrationEntry struct {
	Session     uint64 `json:"session"` // ID
	SessionName string `json:"session_name"`
	Target      Ref    `json:"target"`
	ByNumber    bool   `json:"by_number"` // the session has a registration by number
	Handles     int    `json:"handles"`   // all the session's holds of the target, the one by number among them
}

// listBatch is how many entries List makes before it lets others have Device.mu.
const listBatch = 4096

// List lists the objects, at most limit of each kind: those with the lowest numbers. A device
// with up to 4,096 objects is listed as it was at one instant. A larger one is listed in
// pieces, so that nobody waits long for Device.mu: what is made or destroyed meanwhile may be
// missing.
func (d *Device) List(limit int) Objects {
	d.mu.Lock()
	sessions := slices.Collect(maps.Keys(d.sessions))
	domains := slices.Collect(maps.Keys(d.xrcds))
	srqs := slices.Collect(maps.Keys(d.queues))
	targets := slices.Collect(maps.Keys(d.targets))
	initiators := slices.Collect(maps.Keys(d.initiators))
	large := len(sessions)+len(domains)+len(srqs)+len(targets)+len(initiators) > listBatch
	if large {
		d.unlock()
	}
	l := lister{d: d, limit: limit, out: Objects{Incarnation: d.incarnation}}
	// The keys are numbers that never change.
	sessions = firstOf(&l, sessions, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	domains = firstOf(&l, domains, func(a, b *xrcd) int { return cmp.Compare(a.tag, b.tag) })
	srqs = firstOf(&l, srqs, func(a, b *SRQ) int { return cmp.Compare(a.ref.Number, b.ref.Number) })
	targets = firstOf(&l, targets, cmp.Compare[uint32])
	initiators = firstOf(&l, initiators, cmp.Compare[uint32])
	l.out.Sessions, l.out.Domains, l.out.SRQs = make([]SessionEntry, 0, len(sessions)), make([]DomainEntry, 0, len(domains)), make([]SRQEntry, 0, len(srqs))
	l.out.Targets, l.out.Initiators = make([]TargetEntry, 0, len(targets)), make([]InitiatorEntry, 0, len(initiators))
	l.out.Registrations = make([]RegistrationEntry, 0, len(targets)) // there is one at least with each
	if large {
		d.mu.Lock()
	}
	eachOf(&l, sessions, l.sessionLocked)
	eachOf(&l, domains, l.domainLocked)
	eachOf(&l, srqs, l.srqLocked)
	eachOf(&l, targets, l.targetLocked)
	eachOf(&l, initiators, l.initiatorLocked)
	d.unlock()
	slices.SortFunc(l.out.Registrations, func(a, b RegistrationEntry) int {
		return cmp.Or(cmp.Compare(a.Target.Number, b.Target.Number), cmp.Compare(a.Session, b.Session))
	})
	return l.out
}

// lister is one call of List.
type lister struct {
	d     *Device
	limit int
	made  int // entries since Device.mu was locked
	out   Objects
}

// firstOf returns the lowest keys, in order, and counts those beyond the limit.
func firstOf[K any](l *lister, keys []K, compare func(a, b K) int) []K {
	slices.SortFunc(keys, compare)
	if len(keys) > l.limit {
		l.out.NotListed += len(keys) - l.limit
		keys = keys[:l.limit]
	}
	return keys
}

// eachOf makes entries for the keys. It lets others have Device.mu after each listBatch entries.
func eachOf[K any](l *lister, keys []K, entryLocked func(K)) {
	for _, k := range keys {
		if l.made >= listBatch {
			l.made = 0
			l.d.unlock()
			l.d.mu.Lock()
		}
		l.made++
		entryLocked(k)
	}
}

func (l *lister) sessionLocked(s *Session) {
	if _, ok := l.d.sessions[s]; !ok {
		return // the session has ended since the lock was let go of
	}
	u := s.used
	l.out.Sessions = append(l.out.Sessions, SessionEntry{ID: s.id, Name: s.name, Domains: u.Domains, PDs: u.PDs, CQs: u.CQs, SRQs: u.SRQs,
		Initiators: u.Initiators, Targets: u.Targets, Registrations: u.Registrations, Services: u.Services, Ending: s.ending})
}

func (l *lister) domainLocked(x *xrcd) {
	if x.refs > 0 {
		l.out.Domains = append(l.out.Domains, DomainEntry{Tag: x.tag, Private: x.file == nil, Device: x.key.dev, Inode: x.key.ino, Refs: x.refs})
	}
}

func (l *lister) srqLocked(q *SRQ) {
	if q.gone {
		return
	}
	e := SRQEntry{Ref: q.ref, Session: q.session.id, SessionName: q.session.name, Domain: q.xrcd.tag,
		Sink: HasSink(q.ref.Number), MaxWR: q.maxWR, Posted: q.Posted(), Limit: q.Limit(), Failed: q.failed.Load()}
	l.out.SRQs = append(l.out.SRQs, e)
}

func (l *lister) targetLocked(number uint32) {
	t := l.d.targets[number]
	if t == nil {
		return
	}
	e := TargetEntry{QPEntry: t.entryLocked(), Domain: t.xrcd.tag, Tombstone: t.attr == nil, Registered: t.registeredLocked()}
	l.out.Targets = append(l.out.Targets, e)
	for list := range t.sessionsLocked() {
		if len(l.out.Registrations) >= l.limit {
			l.out.NotListed++
			continue
		}
		l.made++
		s := list[0].session
		l.out.Registrations = append(l.out.Registrations, RegistrationEntry{Session: s.id, SessionName: s.name,
			Target: t.ref, ByNumber: findHandle(list, func(h *Handle) bool { return h.byNumber }) != nil, Handles: len(list)})
	}
}

func (l *lister) initiatorLocked(number uint32) {
	if i := l.d.initiators[number]; i != nil {
		l.out.Initiators = append(l.out.Initiators, InitiatorEntry{QPEntry: i.entryLocked(), Session: i.session.id, SessionName: i.session.name})
	}
}

func (q *qp) entryLocked() QPEntry {
	i := q.infoLocked()
	e := QPEntry{Ref: i.Ref, State: i.Attr.State, Peer: i.Peer, Connected: i.Connected, Suspended: i.Suspended, Since: q.since, Deadline: i.Deadline, Implied: q.implied}
	if i.Cause != nil {
		e.Cause = i.Cause.Error()
	}
	return e
}
