package xctl

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// Reservation is the account of the octets that the receiving side of several
// connections has granted. The octets that are granted and neither delivered nor
// returned are never more than its total, over all connections together.
//
// A connection joins with a Share. As octets are delivered the share is filled up again,
// to as much as is left free (the dynamic threshold of shared-memory switches): one busy
// sender has half of the total, n busy senders have 1/(n+1) each, and a newcomer always
// finds something free. A sender keeps what it has not used. When others run short the
// shares above an even part are asked back; a sender whose next message needs more than
// it has returns what it has and asks for the whole, and such requests are served in
// turn, before anybody's share is filled up. So every message up to the longest one gets
// its turn, as long as senders use, return, or lose with their connection what they have.
//
// What a sender may have grows with what it has delivered: it is a stranger at first, and
// may never use what it gets. Beyond that it is advanced the octets of a message that it
// asks for; all strangers together are advanced half of the total, or one message.
//
// A Reservation is safe for concurrent use. Its lock is a leaf, and tell is called
// without it.
type Reservation struct {
	total, most int64
	short       atomic.Bool // the octets that a sender asks for are not there: deliveries are counted at once; written under mu

	mu     lockorder.Mutex[Reservation]
	free   int64
	ahead  int64 // octets that strangers have been advanced
	shares map[*Share]struct{}
	asking []*Share // shares that ask for octets, in the order of their turns
}

// NewReservation makes the account. most is the longest message with its header, and the
// total is at least that.
func NewReservation(total, most int) *Reservation {
	t := max(int64(total), int64(most))
	return &Reservation{total: t, most: int64(most), free: t, shares: make(map[*Share]struct{})}
}

// Granted is how many octets are granted and neither delivered nor returned.
func (r *Reservation) Granted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total - r.free
}

// Share is a connection's part of a Reservation. Arrived, Delivered and Returned are for
// one goroutine, its event loop.
type Share struct {
	r    *Reservation
	tell func()

	bound     atomic.Uint64 // granted less returned
	arrived   uint64        // octets arrived; the event loop's
	unsettled uint64        // the event loop's: octets delivered and not counted in taken

	// Guarded by r.mu.
	granted, returned, taken uint64
	keep                     uint32 // octets that the sender may keep of what it had when it was given octets last
	want                     int64  // octets, while it is among asking
	ahead                    int64  // octets that it has been advanced
	gone                     bool
}

// Join adds a connection. tell is called when there is a new Grant for it; the first one
// is there when Join returns.
func (r *Reservation) Join(tell func()) *Share {
	r.mu.Lock()
	s := &Share{r: r, tell: tell, keep: KeepAll}
	r.shares[s] = struct{}{}
	var tells []*Share
	if !r.short.Load() {
		r.fillLocked(s)
		tells = r.evenLocked(s, nil)
	}
	r.mu.Unlock()
	tellAll(tells)
	return s
}

// Grant is what to tell the sender.
func (s *Share) Grant() Grant {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return Grant{Granted: s.granted, Keep: s.keep}
}

// Bound is how many octets the sender may have sent in all.
func (s *Share) Bound() uint64 { return s.bound.Load() }

// Arrived counts octets that have come. It is false if they exceed what was granted.
func (s *Share) Arrived(n int) bool {
	s.arrived += uint64(n)
	return s.arrived <= s.bound.Load()
}

// lazyPart is the part of its share below which what was delivered is not counted
// yet, unless some sender asks for octets.
const lazyPart = 16

// Delivered counts octets of whole messages that are where they belong. It tells whether
// there is a new Grant, and whether the sender may be waiting for it.
func (s *Share) Delivered(n int) (grant, urgent bool) {
	s.unsettled += uint64(n)
	r := s.r
	if s.unsettled == 0 || !r.short.Load() && s.unsettled < (s.bound.Load()-s.arrived)/lazyPart {
		return false, false
	}
	r.mu.Lock()
	if s.gone {
		r.mu.Unlock()
		return false, false
	}
	s.taken += s.unsettled
	r.free += int64(s.unsettled)
	s.unsettled = 0
	r.settleLocked(s)
	tells := r.serveLocked(nil)
	if !r.short.Load() {
		out := s.outstanding()
		if grant = r.fillLocked(s); grant {
			urgent = 2*out < s.outstanding()
		}
		tells = r.evenLocked(s, tells)
	}
	r.mu.Unlock()
	tellAll(tells)
	return grant, urgent
}

// Returned takes a RETURN. An error ends the connection: it returns what was used, or
// asks for more than a message.
func (s *Share) Returned(ret Return) error {
	r := s.r
	r.mu.Lock()
	switch {
	case s.gone:
		r.mu.Unlock()
		return nil
	case ret.Returned < s.returned || ret.Returned > s.granted || s.granted-ret.Returned < s.arrived || int64(ret.Want) > r.most:
		r.mu.Unlock()
		return ddp.ErrNoBuffer
	}
	s.taken += s.unsettled
	r.free += int64(s.unsettled) + int64(ret.Returned-s.returned)
	s.unsettled = 0
	s.returned = ret.Returned
	r.settleLocked(s)
	s.bound.Store(s.granted - s.returned)
	if ret.Want > 0 {
		if s.want == 0 {
			r.asking = append(r.asking, s)
		}
		s.want = int64(ret.Want)
	}
	tells := r.serveLocked(nil)
	r.mu.Unlock()
	tellAll(tells)
	return nil
}

// Leave ends the connection: what it has not used is free.
func (s *Share) Leave() {
	r := s.r
	r.mu.Lock()
	if s.gone {
		r.mu.Unlock()
		return
	}
	s.gone = true
	delete(r.shares, s)
	r.free += s.outstanding()
	r.ahead -= s.ahead
	for i, a := range r.asking {
		if a == s {
			r.asking = append(r.asking[:i], r.asking[i+1:]...)
			break
		}
	}
	tells := r.serveLocked(nil)
	r.mu.Unlock()
	tellAll(tells)
}

func (s *Share) outstanding() int64 { return int64(s.granted - s.returned - s.taken) }

// What a sender that has delivered nothing may have, and how many times what it has
// delivered it may have later.
const (
	strangersShare = 64 << 10
	trust          = 16
)

// credit is what a sender may have.
func (s *Share) credit() int64 {
	return max(strangersShare, trust*int64(min(s.taken, math.MaxInt64/(2*trust))))
}

// advanceLocked tells whether s may be given the octets that it asks for, and notes them if
// they are more than its credit.
func (r *Reservation) advanceLocked(s *Share) bool {
	if s.outstanding()+s.want <= s.credit() {
		return true
	}
	if r.ahead > 0 && r.ahead+s.want > r.total/2 {
		return false
	}
	s.ahead += s.want
	r.ahead += s.want
	return true
}

// settleLocked ends the advance of a sender that has delivered, or returned, so much that
// its credit covers what it has.
func (r *Reservation) settleLocked(s *Share) {
	if s.ahead > 0 && s.outstanding() <= s.credit() {
		r.ahead -= s.ahead
		s.ahead = 0
	}
}

func (r *Reservation) giveLocked(s *Share, n int64) {
	r.free -= n
	s.granted += uint64(n)
	s.keep = KeepAll
	s.bound.Store(s.granted - s.returned)
}

// even is what each connection has when all have the same and half is left.
func (r *Reservation) even() int64 { return r.total / int64(2*max(len(r.shares), 1)) }

// fillLocked fills a share up to as much as is left free, unless that is little more
// than the share has.
func (r *Reservation) fillLocked(s *Share) bool {
	out := s.outstanding()
	to := min((r.free+out)/2, s.credit())
	if to <= 0 || out > to-to/4 {
		return false
	}
	r.giveLocked(s, to-out)
	return true
}

// evenLocked asks larger shares back if s has less than an even one.
func (r *Reservation) evenLocked(s *Share, tells []*Share) []*Share {
	if even := r.even(); s.outstanding() < even && r.free < even {
		return r.recallLocked(even, tells)
	}
	return tells
}

// serveLocked gives octets to those who ask, in turn, and asks others back what is
// missing. It returns who is to be told.
func (r *Reservation) serveLocked(tells []*Share) []*Share {
	for i := 0; i < len(r.asking); {
		s := r.asking[i]
		if s.want > r.free {
			r.short.Store(true)
			return r.recallLocked(min(r.even(), (r.total-s.want)/int64(2*len(r.shares))), tells)
		}
		if !r.advanceLocked(s) {
			i++ // a stranger waits for other strangers, and nobody for it
			continue
		}
		r.giveLocked(s, max(s.want, min(r.free/int64(len(r.asking)+1), s.credit()-s.outstanding())))
		s.want = 0
		r.asking = slices.Delete(r.asking, i, i+1)
		tells = append(tells, s)
	}
	if len(r.asking) == 0 {
		r.asking = nil
	}
	r.short.Store(false)
	return tells
}

// recallLocked asks those who have more than keep octets for the rest.
func (r *Reservation) recallLocked(keep int64, tells []*Share) []*Share {
	k := uint32(min(keep, math.MaxUint32-1))
	for s := range r.shares {
		if s.want == 0 && s.outstanding() > keep && k < s.keep {
			s.keep = k
			tells = append(tells, s)
		}
	}
	return tells
}

func tellAll(list []*Share) {
	for _, s := range list {
		s.tell()
	}
}

// Allowance is a sender's side of a Share. Claim and Unclaim are for who sends; the
// other methods are serialised by the owner, and may be concurrent with those two.
type Allowance struct {
	avail    atomic.Int64  // octets granted and neither claimed nor returned
	keep     atomic.Uint64 // KeepAll, or what the peer lets us keep, until it grants more
	served   atomic.Int64  // octets of the last want, not to be returned before the next Claim
	granted  uint64
	returned uint64
	want     uint32 // octets that the sender waits for; 0: it does not wait
}

// Claim takes all octets there are, to be used, or put back with Unclaim. What is
// claimed is not returned.
func (a *Allowance) Claim() int {
	n := a.avail.Swap(0)
	if a.served.Load() != 0 {
		a.served.Store(0)
	}
	return int(n)
}

// Unclaim puts back octets that were claimed. It tells whether some of them are asked
// back: then Return follows.
func (a *Allowance) Unclaim(n int) (owes bool) {
	return a.avail.Add(int64(n)) > int64(a.keep.Load())
}

// Return gives back what the peer asks for, and returns what to tell it.
func (a *Allowance) Return() Return {
	for rest := max(int64(a.keep.Load()), a.served.Load()); ; {
		avail := a.avail.Load()
		if avail <= rest {
			break
		}
		if a.avail.CompareAndSwap(avail, rest) {
			a.returned += uint64(avail - rest)
			break
		}
	}
	return Return{a.returned, a.want}
}

// Want tells whether n octets can be claimed. If not it returns what the peer is to be
// told, and Heard will tell when they can.
func (a *Allowance) Want(n int) (ret Return, enough bool) {
	if a.avail.Load() >= int64(n) {
		return Return{}, true
	}
	a.returned += uint64(a.avail.Swap(0))
	a.want = uint32(n)
	return Return{a.returned, a.want}, false
}

// Heard takes a GRANT. With answer Return is to be told; wake tells that the octets of
// the last Want are there. An error ends the connection.
func (a *Allowance) Heard(g Grant) (answer, wake bool, err error) {
	if g.Granted < a.granted || g.Granted-a.granted > math.MaxInt64/2 {
		return false, false, ddp.ErrMSNRange
	}
	a.keep.Store(uint64(g.Keep)) // before avail changes, because Unclaim reads keep after avail
	if a.want > 0 {
		a.served.Store(int64(a.want)) // before the octets can be claimed
	}
	avail := a.avail.Add(int64(g.Granted - a.granted))
	a.granted = g.Granted
	if wake = a.want > 0 && avail >= int64(a.want); wake {
		a.want = 0
	}
	if a.want > 0 { // The grant was made before the peer had heard of want and is too small: all octets go back at once.
		a.returned += uint64(a.avail.Swap(0))
		return true, false, nil
	}
	return g.Keep < KeepAll, wake, nil
}
