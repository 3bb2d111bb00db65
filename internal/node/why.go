package node

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/info"
)

// Bounds of what Info says of waits.
const (
	waitLeast  = 100 * time.Millisecond // shorter waits are the ordinary course of a stream
	stallLeast = time.Second            // a peer that acknowledges nothing for so long is waited for
	maxWaits   = 1024                   // longest list of waits reported
)

// hints are what to do about a cause.
var hints = map[string]string{
	info.CauseUnreachable: "is the peer up, and its rdsd or RDS? are TCP ports 18634 and 16385 open from here to there and from there to here?",
	info.CauseHandshake:   "the peer's host accepts connections and its RDS does not answer: look at its rdsd",
	info.CauseCongested:   "run rdsinfo why on the peer: the application that has the port does not receive fast enough",
	info.CauseHeld:        "run rdsinfo why on the peer: the application that has the port takes nothing",
	info.CauseSendBuffer:  "see what else the socket waits for; if nothing, a larger send buffer",
	info.CauseBudget:      "see what the peer or the application waits for besides; peer_budget and sessions.send_budget bound it",
	info.CauseMemory:      "see what else the application waits for; sessions.send_arena bounds it",
	info.CauseFates:       "the application has to receive the fates that it has asked for",
	info.CauseWindow:      "is the peer's host alive, and does its rdsd run? rdsinfo -nv shows TCP's view",
	info.CauseReceiver:    "is the application stopped, or slow? it has to receive",
	info.CausePaused:      "is the application stopped, or slow? receive.stall bounds the pause, after which messages for the socket are dropped",
	info.CauseRefused:     "start the application that shall receive, or correct the port: rdsinfo -k on the peer lists those that are bound",
	info.CauseFallenBack:  "no RDMA and less throughput; is TCP port 18634 open in both directions, if the peer has XRC?",
}

// why lists what waits, the oldest first.
func (n *Node) why(now time.Time) []info.Wait {
	y := &WaitReport{node: n, now: now}
	n.EachPeer(y.peer)
	for _, s := range n.Sockets() {
		y.senders(s)
		y.receiver(s)
	}
	n.Server().Waits(y)
	for i := range y.out {
		y.finish(&y.out[i])
	}
	slices.SortStableFunc(y.out, func(a, b info.Wait) int {
		return cmp.Or(a.Since.Compare(b.Since), a.Remote.Compare(b.Remote), a.Local.Compare(b.Local), cmp.Compare(a.Cause, b.Cause))
	})
	return y.out[:min(len(y.out), maxWaits)]
}

// WaitReport collects WaitInfos.
type WaitReport struct {
	node *Node
	now  time.Time
	out  []info.Wait
}

// Add appends a wait that has lasted long enough to be one.
func (y *WaitReport) Add(w info.Wait, s *Socket) {
	if y.now.Sub(w.Since) < waitLeast && w.Error == "" {
		return
	}
	if s != nil {
		who := s.Owner.Who()
		w.Local, w.Whose, w.PID, w.Command = s.Local(), who.Whose, who.PID, who.Command
	}
	y.out = append(y.out, w)
}

// finish says who has a port of this host that is waited for, and what to do.
func (y *WaitReport) finish(w *info.Wait) {
	w.Hint = hints[w.Cause]
	if w.Cause != info.CauseCongested && w.Cause != info.CauseHeld {
		return
	}
	la := y.node.Local(w.Remote.Addr())
	if la == nil {
		return
	}
	if s := la.lookup(w.Remote.Port()); s != nil {
		who := s.Owner.Who()
		w.Owner, w.OwnerPID, w.Holder = who.Command, who.PID, who.Whose
	}
}

// peer lists what is queued for a peer and does not move.
func (y *WaitReport) peer(p *Peer) {
	y.served(p)
	for i := range conn.MaxPaths {
		if f := p.paused[i].Load(); f != nil {
			y.Add(info.Wait{Cause: info.CausePaused, Since: f.since, Remote: netip.AddrPortFrom(p.Remote, 0), Path: i, Detail: "what the peer sends other sockets on this path waits, too"}, f.sock)
		}
	}
	p.Lock()
	defer p.Unlock()
	for _, u := range p.unbound {
		if y.now.Sub(u.last) < unboundLast {
			y.Add(info.Wait{Cause: info.CauseRefused, Since: u.first, Last: u.last, Local: netip.AddrPortFrom(p.Local.Addr, u.sport), Remote: netip.AddrPortFrom(p.Remote, u.dport), Messages: u.count}, nil)
		}
	}
	paths := make(map[int]conn.PathInfo)
	for _, pi := range p.Core.PathInfos() {
		paths[pi.Index] = pi
	}
	for _, b := range p.Core.Backlogs() {
		pi := paths[b.Path]
		w := info.Wait{Remote: netip.AddrPortFrom(p.Remote, b.Dport), Path: b.Path, Messages: b.Unsent + b.Unacked, Bytes: b.Bytes}
		if p.waitsLocked(y.now, &w, &b, &pi) {
			y.Add(w, b.Account.Owner.(*Socket))
		}
	}
	for _, f := range p.Flows { // messages that wait for more than their session's turn wait for the budget
		if !p.Core.OverBudget() {
			break
		}
		type key struct {
			s    *Socket
			port uint16
		}
		sums := make(map[key]*info.Wait)
		for _, it := range f.Queue.All() {
			k := key{it.s, it.M.Dport}
			w := sums[k]
			if w == nil {
				w = &info.Wait{Cause: info.CauseBudget, Since: f.since, Remote: netip.AddrPortFrom(p.Remote, k.port), Path: p.Core.PathFor(it.M.Sport), Detail: "the budget of the peer"}
				sums[k] = w
			}
			w.Messages++
			w.Bytes += it.M.Size()
		}
		for k, w := range sums {
			y.Add(*w, k.s)
		}
	}
}

// served tells that a peer is served over TCP although the node would rather speak XRC.
func (y *WaitReport) served(p *Peer) {
	c := y.node.Choosing(p.Remote)
	if c == nil {
		return
	}
	st := c.State(p.Local.Addr, p.Remote)
	if st.Wire != string(config.WireTCP) || st.Forced {
		return
	}
	w := info.Wait{Cause: info.CauseFallenBack, Since: st.Since, Local: netip.AddrPortFrom(p.Local.Addr, 0), Remote: netip.AddrPortFrom(p.Remote, 0), Detail: st.Reason, NextTry: st.Next}
	if st.Moving != "" {
		w.Detail += "; moving to " + st.Moving
	}
	y.Add(w, nil)
}

// waitsLocked says what messages queued on a path wait for. It is false if they move.
func (p *Peer) waitsLocked(now time.Time, w *info.Wait, b *conn.Backlog, pi *conn.PathInfo) bool {
	h := p.History(b.Path)
	switch {
	case pi.State != conn.Up.String():
		w.Cause, w.Since, w.Tries, w.NextTry = info.CauseUnreachable, h.Down, h.Tries, pi.NextTry
		w.Detail = "the path is " + pi.State
		if h.Err != nil {
			w.Error = h.Err.Error()
		}
	case !pi.Proved:
		w.Cause, w.Since = info.CauseHandshake, h.Up
	case pi.Waits:
		w.Cause, w.Since, w.Detail = info.CauseHandshake, h.Up, "path 0 has messages from before the handshake"
	case b.Held:
		w.Cause, w.Since = info.CauseCongested, p.marks.at(b.Dport)
		if p.Core.Held(b.Dport) {
			w.Cause = info.CauseHeld
		}
	default:
		w.Cause, w.Since, w.Detail = info.CauseWindow, h.Progress(pi.Acked, now), "nothing was acknowledged since"
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
func (y *WaitReport) senders(s *Socket) {
	for _, e := range s.Owner.Senders() {
		w := info.Wait{Cause: e.Cause, Since: e.Since, Senders: e.Senders}
		if !e.Any {
			p := y.node.PeerAt(e.Peer)
			if p == nil || p.Local != s.At { // An application may write any peer number into its cell.
				continue
			}
			w.Remote = netip.AddrPortFrom(p.Remote, e.Port)
			if e.Cause == info.CauseCongested {
				p.Lock()
				if p.Core.Held(e.Port) {
					w.Cause = info.CauseHeld
				}
				if at := p.marks.at(e.Port); !at.IsZero() {
					w.Since = at
				}
				p.Unlock()
			}
		}
		if e := y.with(&w, s); e != nil {
			e.Senders += w.Senders
			continue
		}
		y.Add(w, s)
	}
}

// with is the wait of what a socket has queued for the same as its senders wait for, nil if
// there is none.
func (y *WaitReport) with(w *info.Wait, s *Socket) *info.Wait {
	at := s.Local()
	for i := range y.out {
		if e := &y.out[i]; e.Cause == w.Cause && e.Remote == w.Remote && e.Local == at && w.Remote.IsValid() {
			return e
		}
	}
	return nil
}

// receiver tells that a socket of this host is congested.
func (y *WaitReport) receiver(s *Socket) {
	if !s.Congested.Load() {
		return
	}
	bytes, count := s.Owner.Waiting()
	y.Add(info.Wait{Cause: info.CauseReceiver, Since: time.Unix(0, s.congestedAt.Load()), Messages: int(count), Bytes: int(bytes), Detail: "its receive buffer is full: peers hold back what is for it"}, s)
}
