package node

import (
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/info"
)

// What a watchman does when.
const (
	watchEvery   = time.Second
	episodeLeast = time.Second // an episode shorter than this is not logged
	addressEvery = 3           // every how many looks the addresses of the host are checked

	// An episode that goes on, or comes again, is logged at once and then in sum: after
	// sumFirst, and then after twice as long each time, at most sumLast.
	sumFirst = time.Minute
	sumLast  = time.Hour
)

// watchman looks at a node every second and writes the log's lines about what lasts: a peer
// that cannot be reached while messages wait, a congested port, an address that has gone.
type watchman struct {
	mu       lockorder.Mutex[watchman] // guards the fields below; locked before all other locks
	timer    *time.Timer
	stopped  bool
	looks    int
	episodes map[watched]*episode
	gone     map[netip.Addr]bool        // addresses of the node that the host no longer has
	host     func() ([]net.Addr, error) // the host's addresses
}

// watched is what an episode is about.
type watched struct {
	cause string
	at    netip.AddrPort // the peer, the peer's port, or the own socket
}

// episode is one thing that lasts, or comes and goes.
type episode struct {
	since   time.Time // start of the present episode; zero: none is going on
	told    time.Time // time of the last log line
	every   time.Duration
	count   int // episodes since the last log line
	longest time.Duration
}

// watch starts the watchman.
func (n *Node) watch() {
	w := &n.watchman
	w.mu.Lock()
	defer w.mu.Unlock()
	w.episodes, w.gone, w.host = make(map[watched]*episode), make(map[netip.Addr]bool), net.InterfaceAddrs
	if n.Log.Core() != zapcore.NewNopCore() { // without a logger nobody would read the lines
		w.timer = time.AfterFunc(watchEvery, n.lookAgain)
	}
}

// unwatch stops it. No look is under way any more then.
func (n *Node) unwatch() {
	w := &n.watchman
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	n.LogLimit.End(n.plainLog)
}

func (n *Node) lookAgain() {
	w := &n.watchman
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	n.lookLocked(time.Now())
	w.timer.Reset(watchEvery)
}

// lookLocked is one look. The caller holds watchman.mu.
func (n *Node) lookLocked(now time.Time) {
	w := &n.watchman
	if w.looks++; w.looks%addressEvery == 1 {
		n.lookForAddresses()
	}
	n.rejections.tell(n.plainLog, now)
	n.LogLimit.Tell(n.plainLog)
	seen := make(map[watched]*info.Wait)
	if n.suspects() {
		waits := n.why(now)
		for i := range waits {
			seenWait(seen, &waits[i], now)
		}
	}
	for key, wait := range seen {
		e := w.episodes[key]
		if e == nil {
			e = &episode{told: now, every: sumFirst, since: wait.Since, longest: now.Sub(wait.Since)}
			w.episodes[key] = e
			n.tellWait(key, wait, e)
			continue
		}
		if !e.since.Equal(wait.Since) {
			e.since = wait.Since
			e.count++
		}
		e.longest = max(e.longest, now.Sub(e.since))
	}
	for key, e := range w.episodes {
		wait := seen[key]
		if wait == nil && !e.since.IsZero() {
			e.since = time.Time{}
			if key.cause == info.CauseUnreachable {
				n.Log.Info("peer reachable again", zap.Stringer("peer", key.at.Addr()))
			}
		}
		if now.Sub(e.told) < e.every {
			continue
		}
		if e.count == 0 && wait == nil {
			delete(w.episodes, key) // no episode since the last log line
			continue
		}
		n.tellWait(key, wait, e)
		e.told, e.every, e.count, e.longest = now, min(2*e.every, sumLast), 0, 0
	}
}

// seenWait sums up the waits that a line of the log is about.
func seenWait(seen map[watched]*info.Wait, w *info.Wait, now time.Time) {
	if now.Sub(w.Since) < episodeLeast {
		return
	}
	key := watched{cause: w.Cause}
	switch w.Cause {
	case info.CauseUnreachable:
		key.at = netip.AddrPortFrom(w.Remote.Addr(), 0)
	case info.CauseCongested, info.CauseHeld:
		key.at = w.Remote
	case info.CauseReceiver:
		if key.at = w.Local; !key.at.IsValid() {
			return
		}
	default:
		return
	}
	if s := seen[key]; s != nil {
		s.Messages += w.Messages
		s.Bytes += w.Bytes
		s.Senders += w.Senders
		return
	}
	c := *w
	seen[key] = &c
}

// tellWait writes the line: the first one of an episode, or the sum of those since the last
// line, of which wait goes on unless it is nil.
func (n *Node) tellWait(key watched, wait *info.Wait, e *episode) {
	var fields []zap.Field
	text := "a port of a peer is congested, and messages wait"
	switch key.cause {
	case info.CauseUnreachable:
		text = "peer unreachable, and messages wait"
		fields = append(fields, zap.Stringer("peer", key.at.Addr()))
	case info.CauseReceiver:
		text = "a socket is congested: its application does not receive"
		fields = append(fields, zap.Stringer("socket", key.at))
	default:
		fields = append(fields, zap.Stringer("peer", key.at.Addr()), zap.Uint16("port", key.at.Port()))
	}
	if wait != nil {
		if key.cause != info.CauseReceiver {
			fields = append(fields, zap.Stringer("socket", wait.Local))
		}
		if wait.PID != 0 {
			fields = append(fields, zap.Int("pid", wait.PID), zap.String("command", wait.Command))
		}
		if wait.OwnerPID != 0 {
			fields = append(fields, zap.Int("owner_pid", wait.OwnerPID), zap.String("owner", wait.Owner))
		}
		if wait.Error != "" {
			fields = append(fields, zap.String("error", wait.Error), zap.Int("tries", wait.Tries))
		}
		fields = append(fields, zap.Int("messages", wait.Messages), zap.Int("bytes", wait.Bytes), zap.Int("senders", wait.Senders), zap.Time("since", wait.Since))
	}
	n.Log.Warn(text, append(fields, zap.Int("again", e.count), zap.Duration("longest", e.longest))...)
}

// suspects tells quickly whether anything may be worth a line.
func (n *Node) suspects() bool {
	some := false
	n.EachPeer(func(p *Peer) {
		p.Lock()
		some = some || p.marks.any() || p.Core.Queued() > 0 && p.pathDownLocked()
		p.Unlock()
	})
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	for s := range n.socks {
		some = some || s.Congested.Load()
	}
	return some
}

// pathDownLocked tells whether some path that is wanted has no link.
func (p *Peer) pathDownLocked() bool {
	for i := range max(1, p.Core.Paths()) {
		if p.Core.State(i) != conn.Up {
			return true
		}
	}
	return false
}

// lookForAddresses tells of addresses of the node that the host has no more. The whole of
// 127.0.0.0/8 is the host's as long as its loopback interface is up.
func (n *Node) lookForAddresses() {
	w := &n.watchman
	addrs, err := w.host()
	if err != nil {
		return
	}
	has := func(a netip.Addr) bool {
		for _, h := range addrs {
			ipnet, ok := h.(*net.IPNet)
			if !ok {
				continue
			}
			if ip, ok := netip.AddrFromSlice(ipnet.IP); ok && (ip.Unmap() == a.WithZone("") || a.Is4() && a.IsLoopback() && ip.IsLoopback() && ipnet.Contains(a.AsSlice())) {
				return true
			}
		}
		return false
	}
	for _, la := range n.AllLocals() {
		a := la.Addr
		if sharing(&n.Config).Has(a) { // a route makes it the host's, no interface has it
			continue
		}
		switch gone := !has(a); {
		case gone && !w.gone[a]:
			w.gone[a] = true
			n.Log.Warn("an address of this node has gone from the host: peers cannot reach it", zap.Stringer("address", a))
		case !gone && w.gone[a]:
			delete(w.gone, a)
			n.Log.Info("an address of this node is back", zap.Stringer("address", a))
		}
	}
}
