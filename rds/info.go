package rds

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"sort"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/control"
)

// infoMessages bounds how many queued messages a report lists per connection
// and per socket.
const infoMessages = 1024

// Info takes a snapshot. Queue reports list at most 1,024 messages of each
// connection or socket.
func (n *Node) Info() (Info, error) {
	now := n.now()
	info := Info{Provider: ProviderNode, Counters: n.list(), Waits: n.why(now), Memory: n.memoryInfo(), Time: now}
	n.mu.RLock()
	for a := range n.locals {
		info.Addresses = append(info.Addresses, a)
	}
	n.mu.RUnlock()
	for _, s := range n.sockets() {
		info.Sockets = append(info.Sockets, s.info())
		info.Receive = append(info.Receive, s.received()...)
	}
	slices.SortFunc(info.Addresses, netip.Addr.Compare)
	sort.Slice(info.Sockets, func(i, j int) bool { return info.Sockets[i].Bound.Compare(info.Sockets[j].Bound) < 0 })
	users := n.server().describe(&info)
	info.Admission = n.admission()
	info.Peers = n.peersInfo()
	n.eachPeer(func(p *peer) { p.info(&info, users[p]) })
	sort.Slice(info.Connections, func(i, j int) bool {
		a, b := info.Connections[i], info.Connections[j]
		if c := a.Local.Compare(b.Local); c != 0 {
			return c < 0
		}
		return a.Remote.Less(b.Remote)
	})
	return info, nil
}

func (s *nodeSocket) info() SocketInfo {
	q := &s.q
	q.rmu.Lock()
	bytes, count := q.bytes.Load()-int64(q.taken), q.count.Load()-int64(q.takenN)
	q.rmu.Unlock()
	b, c := s.owner.outstanding()
	bytes, count = bytes+b, count+c
	who := s.owner.who()
	return SocketInfo{
		Bound: s.local(), Connected: s.remote(), SendBuffer: s.account.Limit(), ReceiveBuf: int(s.rcvbuf.Load()),
		SendQueued: s.account.Bytes(), RecvQueued: int(bytes), RecvMessages: int(count), Congested: s.congested.Load(),
		PID: who.pid, UID: who.uid, Command: who.command, whose: who.whose,
	}
}

// received lists the messages nobody has taken yet.
func (s *nodeSocket) received() []QueuedInfo {
	q := &s.q
	q.rmu.Lock()
	defer q.rmu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []QueuedInfo
	for _, items := range [][]recvItem{q.out[q.outPos:], q.in} {
		for i := range items {
			if it := &items[i]; len(out) < infoMessages {
				out = append(out, QueuedInfo{Local: s.local(), Remote: netip.AddrPortFrom(*it.from, it.sport), Sequence: it.seq, Bytes: int(it.length), whose: s.whose()})
			}
		}
	}
	return out
}

func (p *peer) info(info *Info, users []uint32) {
	serving := p.node.serving(p.local.addr, p.remote)
	p.Lock()
	defer p.Unlock()
	c := ConnectionInfo{
		Local: p.local.addr, Remote: p.remote, Paths: p.Core.Paths(), Generation: p.Core.PeerGeneration(),
		Queued: p.Core.Queued(), Path: p.Core.PathInfos(), NextRX: p.NextRX(0),
		users: users, Transport: serving, // replaced below by the link's own word, if there is a link
	}
	if len(c.Path) > 0 {
		c.NextTX = c.Path[0].NextTX
	}
	c.Connected = p.Core.State(0) == conn.Up
	c.Connecting = p.Core.State(0) == conn.Connecting
	for _, pi := range c.Path {
		c.Sending = c.Sending || pi.Transmitter
		l := p.Link(pi.Index)
		if l == nil {
			continue
		}
		if t, ok := pathTCP(pi.Index, l); ok {
			c.TCP = append(c.TCP, t)
		}
		st := l.Stats()
		if pi.Index == 0 {
			c.Transport, c.CRC = st.Transport, l.Caps().CRC
		}
		switch Wire(st.Transport) {
		case WireTCP:
			info.TCP = append(info.TCP, TCPInfo{
				Local: l.LocalAddr(), Remote: l.RemoteAddr(), Path: pi.Index,
				HeaderRemaining: st.HeaderRemaining, PayloadRemaining: st.PayloadRemaining,
				SentNext: pi.LastStart, ExpectedUna: pi.Written, SeenUna: st.Acked,
			})
		case WireXRC:
			info.XRC = append(info.XRC, XRCInfo{
				Local: l.LocalAddr(), Remote: l.RemoteAddr(), Path: pi.Index,
				CRC: l.Caps().CRC, Operations: st.Operations, Written: st.Written, Acked: st.Acked,
			})
		}
	}
	info.Connections = append(info.Connections, c)
	list := func(unacked bool) (out []QueuedInfo) {
		for _, m := range p.Core.Messages(unacked, infoMessages) {
			out = append(out, QueuedInfo{
				Local: netip.AddrPortFrom(p.local.addr, m.Sport), Remote: netip.AddrPortFrom(p.remote, m.Dport),
				Sequence: m.Sequence, Bytes: m.Length,
			})
			if m.Account != nil {
				out[len(out)-1].whose = m.Account.Owner.(*nodeSocket).whose()
			}
		}
		return out
	}
	info.SendQueue = append(info.SendQueue, list(false)...)
	info.Retransmit = append(info.Retransmit, list(true)...)
}

func serveControl(path string, n *Node) (io.Closer, error) {
	with := func(parts []string) (any, error) { return n.Report(InfoParts(parts)...) }
	return control.Config{Path: path, With: with}.Serve(func() (any, error) { return n.Report() })
}

// InfoParts are parts by their names, as a request of the control socket has them.
func InfoParts(names []string) []InfoPart {
	parts := make([]InfoPart, len(names))
	for i, p := range names {
		parts[i] = InfoPart(p)
	}
	return parts
}

// FetchInfo asks the node behind a control socket, such as rdsd's, for its Info, with the
// parts named. A node that does not know a part leaves it out.
func FetchInfo(ctx context.Context, path string, parts ...InfoPart) (Info, error) {
	var info Info
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = string(p)
	}
	if err := control.Fetch(ctx, path, &info, names...); err != nil {
		return Info{}, &OpError{Op: "info", Err: err}
	}
	return info, nil
}
