package loglimit

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds. A window begins with a line, and with the first one after it.
const (
	perPeer = 20  // lines of a kind about one peer in a window
	perKind = 250 // lines of a kind in a window, but for those about trusted peers

	windowMin = time.Minute      // length of the first window
	windowMax = 16 * time.Minute // a window is twice as long as the last one if that has left something out

	maxKinds = 512  // kinds that are told apart
	maxPeers = 1024 // peers that are told apart of a kind
	named    = 8    // peers that a sum names
)

// Limiter counts lines.
type Limiter struct {
	now     func() time.Time
	trusted func(netip.Addr) bool // peers that perKind does not bind, but perPeer does; may be nil

	mu    sync.Mutex       // guards the fields below; a leaf
	kinds map[string]*kind // key: the message of the log line
	left  uint64           // lines left out so far
}

// kind is what is known of one message in the present window.
type kind struct {
	level   zapcore.Level
	start   time.Time
	length  time.Duration
	written int               // lines written, but for those about trusted peers
	left    uint64            // lines left out
	peers   map[string]*count // key: the peer; the empty string: lines about no peer
}

// count is what is known of one peer.
type count struct {
	written int
	left    uint64
}

// New makes a limiter. now is the clock.
func New(now func() time.Time, trusted func(netip.Addr) bool) *Limiter {
	return &Limiter{now: now, trusted: trusted, kinds: make(map[string]*kind)}
}

// Left is how many lines were left out so far.
func (l *Limiter) Left() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// passes tells whether a line may be written.
func (l *Limiter) passes(level zapcore.Level, message string, who subject) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	k := l.kinds[message]
	if k == nil {
		if len(l.kinds) >= maxKinds {
			l.left++
			return false
		}
		k = &kind{level: level, start: now, length: windowMin, peers: make(map[string]*count)}
		l.kinds[message] = k
	}
	if k.left == 0 && now.Sub(k.start) >= k.length { // Tell is for windows that have left something out.
		k.begin(now, windowMin)
	}
	trusted := l.trusted != nil && who.addr.IsValid() && l.trusted(who.addr)
	p := k.peers[who.name]
	ok := trusted || k.written < perKind
	if p == nil && ok {
		if ok = len(k.peers) < maxPeers; ok {
			p = new(count)
			k.peers[who.name] = p
		}
	}
	if p != nil && p.written >= perPeer {
		ok = false
	}
	if !ok {
		l.left++
		k.left++
		if p != nil {
			p.left++
		}
		return false
	}
	p.written++
	if !trusted {
		k.written++
	}
	return true
}

func (k *kind) begin(now time.Time, length time.Duration) {
	k.start, k.length, k.written, k.left = now, length, 0, 0
	clear(k.peers)
}

// sum is what a window has left out.
type sum struct {
	message string
	level   zapcore.Level
	left    uint64
	since   time.Time
	most    []string
}

// Tell writes what was left out in windows that are over to log, one line for each kind,
// and forgets kinds without lines.
func (l *Limiter) Tell(log *zap.Logger) { l.tell(log, false) }

// End is Tell of all windows: the last word.
func (l *Limiter) End(log *zap.Logger) { l.tell(log, true) }

func (l *Limiter) tell(log *zap.Logger, all bool) {
	now := l.now()
	var sums []sum
	l.mu.Lock()
	for message, k := range l.kinds {
		switch {
		case !all && now.Sub(k.start) < k.length:
		case k.left == 0:
			delete(l.kinds, message)
		default:
			sums = append(sums, sum{message, k.level, k.left, k.start, k.most()})
			k.begin(now, min(2*k.length, windowMax))
		}
	}
	l.mu.Unlock()
	slices.SortFunc(sums, func(a, b sum) int { return cmp.Compare(a.message, b.message) })
	for _, s := range sums {
		if ce := log.Check(s.level, "log lines left out"); ce != nil {
			ce.Write(zap.String("line", s.message), zap.Uint64("lines", s.left), zap.Time("since", s.since), zap.String("most", strings.Join(s.most, ", ")))
		}
	}
}

// most names the peers of which most lines were left out.
func (k *kind) most() (out []string) {
	type entry struct {
		name string
		left uint64
	}
	var all []entry
	for name, c := range k.peers {
		if c.left > 0 && name != "" {
			all = append(all, entry{name, c.left})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.name, b.name)) })
	for _, e := range all[:min(len(all), named)] {
		out = append(out, e.name+": "+strconv.FormatUint(e.left, 10))
	}
	return out
}
