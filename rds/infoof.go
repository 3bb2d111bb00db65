package rds

import (
	"net/netip"
	"slices"
)

// whose is who has something in a report: the applications of a user, or the node.
type whose struct {
	app bool
	uid uint32
}

// leftOut is what Info.LeftOut says to those who are shown their own.
const leftOut = "what other users have is left out, and counters: root and the group of the control socket see everything"

// of is what the applications of a user have, and the connections that they use.
func (i *Info) of(uid uint32) Info {
	mine := whose{true, uid}
	out := Info{Provider: i.Provider, Addresses: i.Addresses, Time: i.Time, LeftOut: leftOut}
	bound := make(map[netip.AddrPort]bool)
	for _, s := range i.Sockets {
		if s.whose == mine {
			out.Sockets = append(out.Sockets, s)
			bound[s.Bound] = true
		}
	}
	type pair struct{ local, remote netip.Addr }
	uses := make(map[pair]bool)
	for _, c := range i.Connections {
		if slices.Contains(c.users, uid) {
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
	queued := func(all []QueuedInfo) (list []QueuedInfo) {
		for _, m := range all {
			if m.whose == mine {
				list = append(list, m)
			}
		}
		return list
	}
	out.SendQueue, out.Retransmit, out.Receive = queued(i.SendQueue), queued(i.Retransmit), queued(i.Receive)
	for _, s := range i.Sessions {
		if s.UID == uid {
			out.Sessions = append(out.Sessions, s)
		}
	}
	for _, u := range i.Users {
		if u.UID == uid {
			out.Users = append(out.Users, u)
		}
	}
	for _, w := range i.Waits {
		if w.whose != mine && !(w.Cause == CauseRefused && bound[w.Local]) {
			continue
		}
		if w.holder != mine {
			w.Owner, w.OwnerPID = "", 0
		}
		out.Waits = append(out.Waits, w)
	}
	return out
}
