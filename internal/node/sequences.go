package node

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/statefile"
)

// Limits of the table of receive sequences.
const (
	// maxSequences is how many sequences are kept of peers that nobody here talks to.
	maxSequences = 65536
	// sequenceTime is how long a sequence is kept at least, after the last link.
	sequenceTime = 10 * time.Minute
	// maxStoredRuns bounds the runs of refused messages that are kept of all peers that
	// have ended. Beyond, a path keeps few exactly.
	maxStoredRuns = 1 << 16
)

// sequences is the table of receive sequences: what the peers have delivered to bound
// ports, so that what a peer sends again after a lost link is not taken twice. It holds a
// record for each of the last generations of a peer. A record outlives the peer, which ends
// with its last link: it is forgotten when the table is full and the last link was lost
// sequenceTime ago. When all records are younger new strangers are refused.
//
// The records are those of the state file, if there is one: a successor has the table, too.
type sequences struct {
	file  *statefile.File                // nil: there is no state file
	limit int                            // most records, and reservations of strangers
	gone  func(local, remote netip.Addr) // hears of pairs that are forgotten; nil: nobody does

	mu       lockorder.Mutex[sequences] // guards the fields below; a leaf
	pairs    map[addressPair]*sequence
	records  int                       // records of all pairs
	reserved int                       // strangers with links that have delivered nothing yet
	runs     int                       // runs of refused messages in sequence.refused of all pairs
	ended    fifo.Queue[endedSequence] // pairs without peer, in the order in which the peers ended
}

// addressPair names a peer.
type addressPair struct{ local, remote netip.Addr }

// sequence is what is remembered of one peer. Its fields are guarded by sequences.mu.
type sequence struct {
	addressPair
	records []*statefile.Peer       // records of the generations, the one used last first
	ended   time.Time               // when the peer ended; zero: it has not
	legacy  conn.Legacy             // what the last peer has left to the next one
	loose   [conn.MaxPaths]uint64   // conn.Inbound.Loose of each path of the last peer
	refused map[int]driver.Refusals // messages refused of which the peer may not have heard, by path
}

type endedSequence struct {
	s  *sequence
	at time.Time
}

// open takes over what a predecessor has left in the file.
func (t *sequences) open(file *statefile.File, now time.Time) {
	t.file, t.pairs = file, make(map[addressPair]*sequence)
	if t.limit == 0 {
		t.limit = maxSequences
	}
	if file == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range file.Peers() {
		t.addLocked(r, now)
	}
	t.sortLocked()
}

// Bequeath describes the table to a successor that has no state file.
func (t *sequences) Bequeath() (list []LegacySequence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pair, s := range t.pairs {
		for _, r := range s.records {
			l := LegacySequence{Local: pair.local, Remote: pair.remote, Generation: r.Generation, Taken: r.Taken.Load(), Used: r.Used.Load()}
			for i := range l.Next {
				l.Next[i] = r.Next[i].Load()
			}
			list = append(list, l)
		}
	}
	return list
}

// Adopt takes over the table of a predecessor that has no state file.
func (t *sequences) Adopt(list []LegacySequence, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range list {
		r := &statefile.Peer{Local: l.Local, Remote: l.Remote, Generation: l.Generation}
		r.Taken.Store(l.Taken)
		r.Used.Store(l.Used)
		for i := range l.Next {
			r.Next[i].Store(l.Next[i])
		}
		t.addLocked(r, now)
	}
	t.sortLocked()
}

// addLocked adds a record of a predecessor.
func (t *sequences) addLocked(r *statefile.Peer, now time.Time) {
	k := addressPair{r.Local, r.Remote}
	s := t.pairs[k]
	if s == nil {
		s = &sequence{addressPair: k, ended: now}
		t.pairs[k] = s
		t.ended.Push(endedSequence{s, now})
	}
	s.records = append(s.records, r)
	t.records++
}

// sortLocked has the records of each pair in the order of their last use.
func (t *sequences) sortLocked() {
	for _, s := range t.pairs {
		slices.SortFunc(s.records, func(a, b *statefile.Peer) int { return cmp.Compare(b.Used.Load(), a.Used.Load()) })
	}
}

// begin is called for a new peer, and returns what is known of it, nil if nothing is, and
// what was refused.
func (t *sequences) begin(local, remote netip.Addr) (*sequence, map[int]driver.Refusals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.pairs[addressPair{local, remote}]
	if s == nil {
		return nil, nil
	}
	s.ended = time.Time{}
	return s, t.takeRefusedLocked(s)
}

// takeRefusedLocked takes what was refused out of the table.
func (t *sequences) takeRefusedLocked(s *sequence) map[int]driver.Refusals {
	refused := s.refused
	s.refused = nil
	for _, q := range refused {
		t.runs -= q.Runs()
	}
	return refused
}

// has tells whether something is known of a peer.
func (t *sequences) has(pair addressPair) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pairs[pair] != nil
}

// reserve makes room for the record of a stranger, and tells whether there is room.
func (t *sequences) reserve(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expireLocked(now); t.records+t.reserved >= t.limit {
		return false
	}
	t.reserved++
	return true
}

// unreserve gives a reservation back.
func (t *sequences) unreserve() {
	t.mu.Lock()
	t.reserved--
	t.mu.Unlock()
}

// expireLocked forgets a few sequences that are old enough, if the table is full.
func (t *sequences) expireLocked(now time.Time) {
	for range 8 {
		if t.records+t.reserved < t.limit || t.ended.Len() == 0 {
			return
		}
		e := t.ended.All()[0]
		if e.s.ended.Equal(e.at) {
			if now.Sub(e.at) < sequenceTime {
				return
			}
			for _, r := range e.s.records {
				t.removeLocked(r)
			}
			t.takeRefusedLocked(e.s)
			delete(t.pairs, e.s.addressPair)
			if t.gone != nil {
				t.gone(e.s.local, e.s.remote)
			}
		}
		t.ended.Drop(1)
	}
}

func (t *sequences) removeLocked(r *statefile.Peer) {
	t.records--
	if t.file != nil {
		t.file.Remove(r)
	}
}

// recordsInUse are the records that the paths of a peer write to: these are not given up.
type recordsInUse [conn.MaxPaths]atomic.Pointer[statefile.Peer]

// use has a path use the record of a generation, which becomes the one used last, or none
// if there is none: keep makes it.
func (t *sequences) use(s *sequence, in *recordsInUse, path int, generation uint32, now time.Time) *statefile.Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := s.recordLocked(generation, now)
	in[path].Store(r)
	return r
}

func (s *sequence) recordLocked(generation uint32, now time.Time) *statefile.Peer {
	if s == nil {
		return nil
	}
	for i, r := range s.records {
		if r.Generation == generation {
			copy(s.records[1:i+1], s.records[:i])
			s.records[0] = r
			r.Use(now.UnixNano())
			return r
		}
	}
	return nil
}

func (s *sequence) indexLocked(generation uint32) int {
	return slices.IndexFunc(s.records, func(r *statefile.Peer) bool { return r.Generation == generation })
}

// restore has the record of a generation that no path uses say what a path has received of it. One
// that was made for what turned out to be another generation's goes: it would say nothing.
func (t *sequences) restore(s *sequence, in *recordsInUse, path int, generation uint32, next uint64) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := s.indexLocked(generation)
	if i < 0 {
		return
	}
	r := s.records[i]
	r.Take(path, next, 0)
	if !in.has(r) && !r.Received() {
		t.removeLocked(r)
		s.records = slices.Delete(s.records, i, i+1)
	}
}

// keep makes the record of a generation for a path of a peer, with what the path has received
// of it. Of too many records of one peer the one with the fewest messages goes.
func (t *sequences) keep(pair addressPair, in *recordsInUse, path int, has conn.Received, now time.Time) (*sequence, *statefile.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.pairs[pair]
	if r := s.recordLocked(has.Generation, now); r != nil {
		r.Take(path, has.Next, has.Taken)
		in[path].Store(r)
		return s, r
	}
	if s == nil {
		s = &sequence{addressPair: pair}
		t.pairs[pair] = s
	}
	if len(s.records) >= conn.Generations {
		least := -1
		for i, r := range s.records {
			if !in.has(r) && (least < 0 || r.Taken.Load() < s.records[least].Taken.Load()) {
				least = i
			}
		}
		if least >= 0 {
			t.removeLocked(s.records[least])
			s.records = slices.Delete(s.records, least, least+1)
		}
	}
	t.expireLocked(now)
	r := &statefile.Peer{Local: pair.local, Remote: pair.remote, Generation: has.Generation}
	r.Take(path, has.Next, has.Taken)
	r.Use(now.UnixNano())
	if t.file != nil {
		t.file.Add(r)
	}
	s.records = slices.Insert(s.records, 0, r)
	t.records++
	in[path].Store(r)
	return s, r
}

func (in *recordsInUse) has(r *statefile.Peer) bool {
	for i := range in {
		if in[i].Load() == r {
			return true
		}
	}
	return false
}

// received is what is known of a path.
func (t *sequences) received(s *sequence, path int) (list []conn.Received) {
	if s == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range s.records {
		if next := r.Next[path].Load(); next > 0 {
			list = append(list, conn.Received{Generation: r.Generation, Next: next, Taken: r.Taken.Load()})
		}
	}
	return list
}

// end is called when a peer has ended.
func (t *sequences) end(s *sequence, legacy conn.Legacy, loose [conn.MaxPaths]uint64, refused map[int]driver.Refusals, now time.Time) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range refused {
		if t.runs+q.Runs() > maxStoredRuns {
			q.Shorten()
			refused[i] = q
		}
		t.runs += q.Runs()
	}
	s.ended, s.legacy, s.loose, s.refused = now, legacy, loose, refused
	t.ended.Push(endedSequence{s, now})
	if n := t.ended.Len(); n > 64 && n > 2*len(t.pairs) {
		t.tidyLocked()
	}
}

// tidyLocked drops the places of peers that have come back since.
func (t *sequences) tidyLocked() {
	old := t.ended.All()
	var list fifo.Queue[endedSequence]
	for _, e := range old {
		if e.s.ended.Equal(e.at) {
			list.Push(e)
		}
	}
	t.ended = list
}

// size is the number of records, of reservations, and the limit of both.
func (t *sequences) size() (records, reserved, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records, t.reserved, t.limit
}

// LegacySequence is the receive sequence of one generation of a peer.
type LegacySequence struct {
	Local, Remote netip.Addr
	Generation    uint32
	Next          [conn.MaxPaths]uint64
	Taken         uint64
	Used          int64
}
