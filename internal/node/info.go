package node

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// infoMessages bounds how many queued messages a report lists per connection
// and per socket.
const infoMessages = 1024

// Info is Node.Info of package rds.
func (n *Node) Info() (info.Report, error) {
	now := time.Now()
	info := info.Report{Provider: info.ProviderNode, Counters: n.List(), Waits: n.why(now), Memory: n.memoryInfo(), Time: now}
	n.Mu.RLock()
	for a := range n.locals {
		info.Addresses = append(info.Addresses, a)
	}
	n.Mu.RUnlock()
	for _, s := range n.Sockets() {
		info.Sockets = append(info.Sockets, s.info())
		info.Receive = append(info.Receive, s.received()...)
	}
	slices.SortFunc(info.Addresses, netip.Addr.Compare)
	sort.Slice(info.Sockets, func(i, j int) bool { return info.Sockets[i].Bound.Compare(info.Sockets[j].Bound) < 0 })
	users := n.Server().Describe(&info)
	info.Admission = n.admission()
	info.Peers = n.peersInfo()
	n.EachPeer(func(p *Peer) { p.info(&info, users[p]) })
	sort.Slice(info.Connections, func(i, j int) bool {
		a, b := info.Connections[i], info.Connections[j]
		if c := a.Local.Compare(b.Local); c != 0 {
			return c < 0
		}
		return a.Remote.Less(b.Remote)
	})
	return info, nil
}

func (s *Socket) info() info.Socket {
	q := &s.Queue
	q.TakeMu.Lock()
	bytes, count := q.Bytes.Load()-int64(q.Taken), q.Count.Load()-int64(q.TakenN)
	q.TakeMu.Unlock()
	b, c := s.Owner.Outstanding()
	bytes, count = bytes+b, count+c
	who := s.Owner.Who()
	return info.Socket{
		Bound: s.Local(), Connected: s.Remote(), SendBuffer: s.Account.Limit(), ReceiveBuf: int(s.ReceiveBuffer.Load()),
		SendQueued: s.Account.Bytes(), RecvQueued: int(bytes), RecvMessages: int(count), Congested: s.Congested.Load(),
		PID: who.PID, UID: who.UID, Command: who.Command, Whose: who.Whose,
	}
}

// received lists the messages nobody has taken yet.
func (s *Socket) received() []info.Queued {
	q := &s.Queue
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	var out []info.Queued
	for _, items := range [][]socket.Item{q.Out[q.OutPos:], q.In} {
		for i := range items {
			if it := &items[i]; len(out) < infoMessages {
				out = append(out, info.Queued{Local: s.Local(), Remote: netip.AddrPortFrom(*it.From, it.Sport), Sequence: it.Seq, Bytes: int(it.Length), Whose: s.whose()})
			}
		}
	}
	return out
}

func (p *Peer) info(report *info.Report, users []uint32) {
	serving, _ := p.servedBy()
	p.Lock()
	defer p.Unlock()
	c := info.Connection{
		Local: p.Local.Addr, Remote: p.Remote, Paths: p.Core.Paths(), Generation: p.Core.PeerGeneration(),
		Queued: p.Core.Queued(), Path: p.Core.PathInfos(), NextRX: p.NextRX(0),
		Users: users, Transport: serving, // replaced below by the link's own word, if there is a link
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
		switch config.Wire(st.Transport) {
		case config.WireTCP:
			report.TCP = append(report.TCP, info.TCP{
				Local: l.LocalAddr(), Remote: l.RemoteAddr(), Path: pi.Index,
				HeaderRemaining: st.HeaderRemaining, PayloadRemaining: st.PayloadRemaining,
				SentNext: pi.LastStart, ExpectedUna: pi.Written, SeenUna: st.Acked,
			})
		case config.WireXRC:
			report.XRC = append(report.XRC, info.XRC{
				Local: l.LocalAddr(), Remote: l.RemoteAddr(), Path: pi.Index,
				CRC: l.Caps().CRC, Operations: st.Operations, Written: st.Written, Acked: st.Acked,
			})
		}
	}
	report.Connections = append(report.Connections, c)
	list := func(unacked bool) (out []info.Queued) {
		for _, m := range p.Core.Messages(unacked, infoMessages) {
			out = append(out, info.Queued{
				Local: netip.AddrPortFrom(p.Local.Addr, m.Sport), Remote: netip.AddrPortFrom(p.Remote, m.Dport),
				Sequence: m.Sequence, Bytes: m.Length,
			})
			if m.Account != nil {
				out[len(out)-1].Whose = m.Account.Owner.(*Socket).whose()
			}
		}
		return out
	}
	report.SendQueue = append(report.SendQueue, list(false)...)
	report.Retransmit = append(report.Retransmit, list(true)...)
}

func serveControl(path string, n *Node) (io.Closer, error) {
	with := func(parts []string) (any, error) { return n.Report(InfoParts(parts)...) }
	return control.Config{Path: path, With: with}.Serve(func() (any, error) { return n.Report() })
}

// InfoParts is InfoParts of package rds.
func InfoParts(names []string) []info.InfoPart {
	parts := make([]info.InfoPart, len(names))
	for i, p := range names {
		parts[i] = info.InfoPart(p)
	}
	return parts
}

// FetchInfo is FetchInfo of package rds.
func FetchInfo(ctx context.Context, path string, parts ...info.InfoPart) (info.Report, error) {
	var report info.Report
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = string(p)
	}
	if err := control.Fetch(ctx, path, &report, names...); err != nil {
		return info.Report{}, &datagram.OpError{Op: "info", Err: err}
	}
	return report, nil
}
