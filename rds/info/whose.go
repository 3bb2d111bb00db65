package info

import (
	"net/netip"
	"slices"

	"github.com/rds-go/rds/xrc/objects"
)

// Whose is who has something in a report: the applications of a user, or the node.
type Whose struct {
	App bool
	UID uint32
}

// leftOut is what Report.LeftOut says to those who are shown their own.
const leftOut = "what other users have is left out, and counters: root and the group of the control socket see everything"

// Of is what the applications of a user have, and the connections that they use.
func (i *Report) Of(uid uint32) Report {
	mine := Whose{true, uid}
	out := Report{Provider: i.Provider, Addresses: i.Addresses, Time: i.Time, LeftOut: leftOut}
	bound := make(map[netip.AddrPort]bool)
	for _, s := range i.Sockets {
		if s.Whose == mine {
			out.Sockets = append(out.Sockets, s)
			bound[s.Bound] = true
		}
	}
	type pair struct{ local, remote netip.Addr }
	uses := make(map[pair]bool)
	for _, c := range i.Connections {
		if slices.Contains(c.Users, uid) {
			out.Connections = append(out.Connections, c)
			uses[pair{c.Local, c.Remote}] = true
		}
	}
	for _, c := range i.TCP {
		if uses[pair{c.Local.Addr(), c.Remote.Addr()}] {
			out.TCP = append(out.TCP, c)
		}
	}
	for _, c := range i.XRC {
		if uses[pair{c.Local.Addr(), c.Remote.Addr()}] {
			out.XRC = append(out.XRC, c)
		}
	}
	queued := func(all []Queued) (list []Queued) {
		for _, m := range all {
			if m.Whose == mine {
				list = append(list, m)
			}
		}
		return list
	}
	out.SendQueue, out.Retransmit, out.Receive = queued(i.SendQueue), queued(i.Retransmit), queued(i.Receive)
	queues := make(map[uint32]bool)
	for _, s := range i.Sessions {
		if s.UID == uid {
			out.Sessions = append(out.Sessions, s)
			queues[s.Queue] = true
		}
	}
	if i.Objects != nil {
		remotes := make(map[netip.Addr]bool)
		for p := range uses {
			remotes[p.remote] = true
		}
		out.Objects = objectsOf(i.Objects, queues, remotes)
	}
	for _, u := range i.Users {
		if u.UID == uid {
			out.Users = append(out.Users, u)
		}
	}
	for _, w := range i.Waits {
		if w.Whose != mine && !(w.Cause == CauseRefused && bound[w.Local]) {
			continue
		}
		if w.Holder != mine {
			w.Owner, w.OwnerPID = "", 0
		}
		out.Waits = append(out.Waits, w)
	}
	return out
}

// objectsOf is what sessions with shared receive queues of these numbers have, and RDS's queue
// pairs that are connected to these hosts.
func objectsOf(all *objects.Objects, queues map[uint32]bool, remotes map[netip.Addr]bool) *objects.Objects {
	out := &objects.Objects{Incarnation: all.Incarnation, NotListed: all.NotListed}
	mine := make(map[uint64]bool) // IDs of sessions
	domains := make(map[uint64]int)
	for _, q := range all.SRQs {
		if queues[q.Ref.Number] {
			mine[q.Session] = true
		}
	}
	for _, s := range all.Sessions {
		if mine[s.ID] {
			out.Sessions = append(out.Sessions, s)
		}
	}
	for _, q := range all.SRQs {
		if mine[q.Session] {
			out.SRQs = append(out.SRQs, q)
			domains[q.Domain]++
		}
	}
	registered := make(map[objects.Ref]int)
	for _, r := range all.Registrations {
		if mine[r.Session] {
			out.Registrations = append(out.Registrations, r)
			registered[r.Target]++
		}
	}
	for _, t := range all.Targets {
		if n := registered[t.Ref]; n > 0 || t.Implied && remotes[t.Peer.Host] {
			t.Registered = n
			out.Targets = append(out.Targets, t)
			domains[t.Domain]++
		}
	}
	for _, i := range all.Initiators {
		if mine[i.Session] || i.Implied && remotes[i.Peer.Host] {
			out.Initiators = append(out.Initiators, i)
		}
	}
	for _, d := range all.Domains {
		if n := domains[d.Tag]; n > 0 {
			d.Refs = n
			out.Domains = append(out.Domains, d)
		}
	}
	return out
}
