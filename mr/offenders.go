package mr

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
)

// offenders attributes bad keys to the peers that send them, in bounded room
// and with bounded logging: a line sums up what a peer was refused since the one before
// it, or in the first second. Readers note them between sections.
type offenders struct {
	config *Config

	mu lockorder.Mutex[offenders]
	// Under mu.
	peers   map[netip.Addr]*offender
	swept   time.Time
	timer   *time.Timer // writes the next lines; nil before it is needed
	armed   bool        // the timer runs
	stopped bool
}

type offender struct {
	total uint64
	last  time.Time
	// Since the last line.
	refused uint64
	unseen  uint64 // refusals without a look-up
	since   time.Time
	fault   Fault // why the last request was refused
	due     time.Time
}

// firstLine is how long the first line about a peer waits, for what there is to add.
const firstLine = time.Second

func (o *offenders) init(c *Config) {
	o.config = c
	o.peers = make(map[netip.Addr]*offender)
}

func (o *offenders) note(peer netip.Addr, f Fault, n uint64) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entryLocked(&peer, now)
	if e.refused == 0 {
		e.since = now
		if first := now.Add(min(firstLine, o.config.LogInterval)); first.After(e.due) {
			e.due = first
		}
	}
	e.total += n
	e.refused += n
	if f == Unseen {
		e.unseen += n
	}
	e.last, e.fault = now, f
	if o.armed || o.stopped {
		return
	}
	o.armed = true
	if wait := e.due.Sub(now); o.timer == nil {
		o.timer = time.AfterFunc(wait, o.tell)
	} else {
		o.timer.Reset(wait)
	}
}

// offense is a line of the log.
type offense struct {
	peer netip.Addr
	offender
	over time.Duration
}

// tell writes the lines that are due.
func (o *offenders) tell() {
	now := time.Now()
	var next time.Time
	o.mu.Lock()
	if o.stopped {
		o.mu.Unlock()
		return
	}
	var lines []offense
	for peer, e := range o.peers {
		switch {
		case e.refused == 0:
		case e.due.After(now):
			if next.IsZero() || e.due.Before(next) {
				next = e.due
			}
		default:
			lines = append(lines, e.offenseLocked(peer, now))
			e.due = now.Add(o.config.LogInterval)
		}
	}
	if o.armed = !next.IsZero(); o.armed {
		o.timer.Reset(next.Sub(now))
	}
	o.mu.Unlock()
	o.write(lines)
}

// offenseLocked is a line about what a peer has done since the last one.
func (e *offender) offenseLocked(peer netip.Addr, now time.Time) offense {
	line := offense{peer, *e, now.Sub(e.since).Round(time.Millisecond)}
	e.refused, e.unseen = 0, 0
	return line
}

func (o *offenders) write(lines []offense) {
	for i := range lines {
		e := &lines[i]
		text, _ := e.peer.MarshalText()
		o.config.Logger.Warn("bad keys", zap.ByteString("peer", text), zap.Uint64("refused", e.refused), zap.Uint64("unseen", e.unseen),
			zap.Duration("over", e.over), zap.String("last", e.fault.Error()))
	}
}

// stop writes what there is to say, and nothing any more.
func (o *offenders) stop() {
	now := time.Now()
	o.mu.Lock()
	var lines []offense
	for peer, e := range o.peers {
		if e.refused > 0 && !o.stopped {
			lines = append(lines, e.offenseLocked(peer, now))
		}
	}
	o.stopped = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.mu.Unlock()
	o.write(lines)
}

// entryLocked finds or makes the entry of a peer. When there is no room, peers
// that were quiet for an interval give theirs up, but no more often than
// that; what still has no room goes to the zero address.
func (o *offenders) entryLocked(peer *netip.Addr, now time.Time) *offender {
	if e := o.peers[*peer]; e != nil {
		return e
	}
	if len(o.peers) >= o.config.Peers && now.Sub(o.swept) >= o.config.LogInterval {
		o.swept = now
		var gone uint64
		for a, e := range o.peers {
			if now.Sub(e.last) >= o.config.LogInterval {
				gone += e.total
				delete(o.peers, a)
			}
		}
		if gone > 0 {
			o.othersLocked().total += gone
		}
	}
	if len(o.peers) >= o.config.Peers {
		*peer = netip.Addr{}
		return o.othersLocked()
	}
	e := new(offender)
	o.peers[*peer] = e
	return e
}

func (o *offenders) othersLocked() *offender {
	e := o.peers[netip.Addr{}]
	if e == nil {
		e = new(offender)
		o.peers[netip.Addr{}] = e
	}
	return e
}

func (o *offenders) snapshot() map[netip.Addr]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := make(map[netip.Addr]uint64, len(o.peers))
	for a, e := range o.peers {
		m[a] = e.total
	}
	return m
}
