package node

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/info"
)

// Bounds of what is known of rejections.
const (
	maxRejecting  = 1024 // prefixes that are counted by themselves
	toldRejecting = 8    // prefixes that a line of the log names
)

// rejections counts the connections that were reset because the allow-list does not name
// their address, by prefix: /24 of IPv4, /64 of IPv6. The log hears of them in sum.
type rejections struct {
	mu     lockorder.Mutex[rejections] // guards the fields below; a leaf
	total  uint64
	others uint64 // rejections of prefixes that have made room for others
	of     map[netip.Prefix]*rejection
	told   time.Time     // time of the last log line; zero: nothing was rejected for a while
	every  time.Duration // time from one log line to the next
	news   uint64        // rejections since the last log line
}

// rejection is what is known of a prefix.
type rejection struct {
	count uint64
	news  uint64 // part of count since the last log line
	last  time.Time
}

// neighbourhood is the prefix by which strangers are counted: /24 of IPv4, /64 of IPv6.
func neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // fails only for more bits than the address has
	return p
}

// count counts one rejection. Where the table is full, some prefix makes room: which one
// is left to the order of the map, which nobody can predict.
func (r *rejections) count(a netip.Addr, now time.Time) {
	key := neighbourhood(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	r.news++
	e := r.of[key]
	if e == nil {
		if r.of == nil {
			r.of = make(map[netip.Prefix]*rejection)
		}
		if len(r.of) >= maxRejecting {
			for old, was := range r.of {
				r.others += was.count
				delete(r.of, old)
				break
			}
		}
		e = new(rejection)
		r.of[key] = e
	}
	e.count++
	e.news++
	e.last = now
}

// sum is the number of all rejections.
func (r *rejections) sum() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// tell logs the first rejection at once and then their sum, after sumFirst, and then after
// twice as long each time, at most sumLast. After a time without any it begins anew.
func (r *rejections) tell(log *zap.Logger, now time.Time) {
	r.mu.Lock()
	if !r.told.IsZero() && now.Sub(r.told) < r.every {
		r.mu.Unlock()
		return
	}
	if r.news == 0 {
		r.told = time.Time{}
		r.mu.Unlock()
		return
	}
	if r.told.IsZero() {
		r.every = sumFirst
	} else {
		r.every = min(2*r.every, sumLast)
	}
	r.told = now
	news, prefixes := r.news, 0
	var most []info.Rejected
	for p, e := range r.of {
		if e.news > 0 {
			prefixes++
			most = append(most, info.Rejected{Prefix: p, Count: e.news})
			e.news = 0
		}
	}
	r.news = 0
	r.mu.Unlock()
	sortRejected(most)
	var words []string
	for _, m := range most[:min(len(most), toldRejecting)] {
		words = append(words, m.Prefix.String()+": "+strconv.FormatUint(m.Count, 10))
	}
	log.Warn("connections of addresses that are not on the allow-list were reset",
		zap.Uint64("connections", news), zap.Int("prefixes", prefixes), zap.String("most", strings.Join(words, ", ")))
}

// info is what rdsinfo shows.
func (r *rejections) info(i *info.Admission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i.Rejected, i.Others = r.total, r.others
	for p, e := range r.of {
		i.Prefixes = append(i.Prefixes, info.Rejected{Prefix: p, Count: e.count, Last: e.last})
	}
	sortRejected(i.Prefixes)
}

// sortRejected puts the prefixes with the most rejections first.
func sortRejected(list []info.Rejected) {
	slices.SortFunc(list, func(a, b info.Rejected) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
}
