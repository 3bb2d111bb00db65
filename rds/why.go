package rds

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport/choice"
)

// Bounds of what Info says of waits.
const (
	waitLeast  = 100 * time.Millisecond // shorter waits are the ordinary course of a stream
	stallLeast = time.Second            // a peer that acknowledges nothing for so long is waited for
	maxWaits   = 1024                   // longest list of waits reported
)

// hints are what to do about a cause.
var hints = map[string]string{
	CauseUnreachable: "is the peer up, and its rdsd or RDS? are TCP ports 18634 and 16385 open from here to there and from there to here?",
	CauseHandshake:   "the peer's host accepts connections and its RDS does not answer: look at its rdsd",
	CauseCongested:   "run rdsinfo why on the peer: the application that has the port does not receive fast enough",
	CauseHeld:        "run rdsinfo why on the peer: the application that has the port takes nothing",
	CauseSendBuffer:  "see what else the socket waits for; if nothing, a larger send buffer",
	CauseBudget:      "see what the peer or the application waits for besides; peer_budget and sessions.send_budget bound it",
	CauseMemory:      "see what else the application waits for; sessions.send_arena bounds it",
	CauseFates:       "the application has to receive the fates that it has asked for",
	CauseWindow:      "is the peer's host alive, and does its rdsd run? rdsinfo -nv shows TCP's view",
	CauseReceiver:    "is the application stopped, or slow? it has to receive",
	CausePaused:      "is the application stopped, or slow? receive.stall bounds the pause, after which messages for the socket are dropped",
	CauseRefused:     "start the application that shall receive, or correct the port: rdsinfo -k on the peer lists those that are bound",
	CauseFallenBack:  "no RDMA and less throughput; is TCP port 18634 open in both directions, if the peer has XRC?",
}

// why lists what waits, the oldest first.
func (n *Node) why(now time.Time) []WaitInfo {
	y := &waitReport{node: n, now: now}
	n.eachPeer(y.peer)
	for _, s := range n.sockets() {
		y.senders(s)
		y.receiver(s)
	}
	n.server().waits(y)
	for i := range y.out {
		y.finish(&y.out[i])
	}
	slices.SortStableFunc(y.out, func(a, b WaitInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), a.Remote.Compare(b.Remote), a.Local.Compare(b.Local), cmp.Compare(a.Cause, b.Cause))
	})
	return y.out[:min(len(y.out), maxWaits)]
}

// waitReport collects WaitInfos.
type waitReport struct {
	node *Node
	now  time.Time
	out  []WaitInfo
}

// add appends a wait that has lasted long enough to be one.
func (y *waitReport) add(w WaitInfo, s *nodeSocket) {
	if y.now.Sub(w.Since) < waitLeast && w.Error == "" {
		return
	}
	if s != nil {
		who := s.owner.who()
		w.Local, w.whose, w.PID, w.Command = s.local(), who.whose, who.pid, who.command
	}
	y.out = append(y.out, w)
}

// finish says who has a port of this host that is waited for, and what to do.
func (y *waitReport) finish(w *WaitInfo) {
	w.Hint = hints[w.Cause]
	if w.Cause != CauseCongested && w.Cause != CauseHeld {
		return
	}
	la := y.node.local(w.Remote.Addr())
	if la == nil {
		return
	}
	if s := la.lookup(w.Remote.Port()); s != nil {
		who := s.owner.who()
		w.Owner, w.OwnerPID, w.holder = who.command, who.pid, who.whose
	}
}

// peer lists what is queued for a peer and does not move.
func (y *waitReport) peer(p *peer) {
	y.served(p)
	for i := range conn.MaxPaths {
		if f := p.paused[i].Load(); f != nil {
			y.add(WaitInfo{Cause: CausePaused, Since: f.since, Remote: netip.AddrPortFrom(p.remote, 0), Path: i, Detail: "what the peer sends other sockets on this path waits, too"}, f.sock)
		}
	}
	p.Lock()
	defer p.Unlock()
	for _, u := range p.unbound {
		if y.now.Sub(u.last) < unboundLast {
			y.add(WaitInfo{Cause: CauseRefused, Since: u.first, Last: u.last, Local: netip.AddrPortFrom(p.local.addr, u.sport), Remote: netip.AddrPortFrom(p.remote, u.dport), Messages: u.count}, nil)
		}
	}
	paths := make(map[int]conn.PathInfo)
	for _, pi := range p.Core.PathInfos() {
		paths[pi.Index] = pi
	}
	for _, b := range p.Core.Backlogs() {
		pi := paths[b.Path]
		w := WaitInfo{Remote: netip.AddrPortFrom(p.remote, b.Dport), Path: b.Path, Messages: b.Unsent + b.Unacked, Bytes: b.Bytes}
		if p.waitsLocked(y.now, &w, &b, &pi) {
			y.add(w, b.Account.Owner.(*nodeSocket))
		}
	}
	for _, f := range p.flows { // messages that wait for more than their session's turn wait for the budget
		if !p.Core.OverBudget() {
			break
		}
		type key struct {
			s    *nodeSocket
			port uint16
		}
		sums := make(map[key]*WaitInfo)
		for _, it := range f.queue.All() {
			k := key{it.s, it.m.Dport}
			w := sums[k]
			if w == nil {
				w = &WaitInfo{Cause: CauseBudget, Since: f.since, Remote: netip.AddrPortFrom(p.remote, k.port), Path: p.Core.PathFor(it.m.Sport), Detail: "the budget of the peer"}
				sums[k] = w
			}
			w.Messages++
			w.Bytes += it.m.Size()
		}
		for k, w := range sums {
			y.add(*w, k.s)
		}
	}
}

// served tells that a peer is served over TCP although the node would rather speak XRC.
func (y *waitReport) served(p *peer) {
	c, ok := y.node.via(p.remote).(*choice.Transport)
	if !ok {
		return
	}
	st := c.State(p.local.addr, p.remote)
	if st.Wire != string(WireTCP) || st.Forced {
		return
	}
	w := WaitInfo{Cause: CauseFallenBack, Since: st.Since, Local: netip.AddrPortFrom(p.local.addr, 0), Remote: netip.AddrPortFrom(p.remote, 0), Detail: st.Reason, NextTry: st.Next}
	if st.Moving != "" {
		w.Detail += "; moving to " + st.Moving
	}
	y.add(w, nil)
}

// waitsLocked says what messages queued on a path wait for. It is false if they move.
func (p *peer) waitsLocked(now time.Time, w *WaitInfo, b *conn.Backlog, pi *conn.PathInfo) bool {
	h := p.History(b.Path)
	switch {
	case pi.State != conn.Up.String():
		w.Cause, w.Since, w.Tries, w.NextTry = CauseUnreachable, h.Down, h.Tries, pi.NextTry
		w.Detail = "the path is " + pi.State
		if h.Err != nil {
			w.Error = h.Err.Error()
		}
	case !pi.Proved:
		w.Cause, w.Since = CauseHandshake, h.Up
	case pi.Waits:
		w.Cause, w.Since, w.Detail = CauseHandshake, h.Up, "path 0 has messages from before the handshake"
	case b.Held:
		w.Cause, w.Since = CauseCongested, p.marks.since[b.Dport]
		if p.Core.Held(b.Dport) {
			w.Cause = CauseHeld
		}
	default:
		w.Cause, w.Since, w.Detail = CauseWindow, h.Progress(pi.Acked, now), "nothing was acknowledged since"
		if pi.Unacked == 0 { // A single large message is being written, and nobody polls its acknowledgements.
			w.Since = h.Wrote
		}
		if now.Sub(w.Since) < stallLeast || pi.Unacked == 0 && !p.Full(b.Path) {
			return false
		}
		if tcp, ok := pathTCP(b.Path, p.Link(b.Path)); ok {
			w.Detail += "; " + whyStalled(&tcp)
		}
	}
	return true
}

// senders lists the calls that are blocked on a socket.
func (y *waitReport) senders(s *nodeSocket) {
	for _, e := range s.owner.senders() {
		w := WaitInfo{Cause: e.cause, Since: e.since, Senders: e.senders}
		if !e.any {
			p := y.node.peerAt(e.peer)
			if p == nil || p.local != s.la { // An application may write any peer number into its cell.
				continue
			}
			w.Remote = netip.AddrPortFrom(p.remote, e.port)
			if e.cause == CauseCongested {
				p.Lock()
				if p.Core.Held(e.port) {
					w.Cause = CauseHeld
				}
				if at, ok := p.marks.since[e.port]; ok {
					w.Since = at
				}
				p.Unlock()
			}
		}
		if e := y.with(&w, s); e != nil {
			e.Senders += w.Senders
			continue
		}
		y.add(w, s)
	}
}

// with is the wait of what a socket has queued for the same as its senders wait for, nil if
// there is none.
func (y *waitReport) with(w *WaitInfo, s *nodeSocket) *WaitInfo {
	at := s.local()
	for i := range y.out {
		if e := &y.out[i]; e.Cause == w.Cause && e.Remote == w.Remote && e.Local == at && w.Remote.IsValid() {
			return e
		}
	}
	return nil
}

// receiver tells that a socket of this host is congested.
func (y *waitReport) receiver(s *nodeSocket) {
	if !s.congested.Load() {
		return
	}
	bytes, count := s.owner.waiting()
	y.add(WaitInfo{Cause: CauseReceiver, Since: time.Unix(0, s.congestedAt.Load()), Messages: int(count), Bytes: int(bytes), Detail: "its receive buffer is full: peers hold back what is for it"}, s)
}
