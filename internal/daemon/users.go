package daemon

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// user is what the applications of one user have, together. It is there as long as one of
// their sessions counts.
type user struct {
	uid   uint32
	turns reportTurns

	touched atomic.Int64 // bytes of touched memory, as last seen
	over    atomic.Bool  // the share of memory is used up; written under Service.mu

	regionsOnce sync.Once
	regions     atomic.Pointer[mr.Owner] // owner of all regions of the user's sessions; nil: there were none so far

	// Guarded by Service.mu.
	sessions int                         // sessions, and former ones with sockets that linger
	sockets  int                         // sockets bound, and those that linger
	addrs    map[netip.Addr]int          // sockets by address
	peers    map[*node.Peer]int          // sessions that use a connection
	meeting  int                         // connections that are being made
	segments map[*sharedSegment]*session // memory of sessions, which may have ended
	reserved int64                       // bytes of segments, touched or not
}

// userLocked is the user of a session, made if needed.
func (s *Service) userLocked(uid uint32) *user {
	u := s.users[uid]
	if u == nil {
		u = &user{uid: uid, turns: newReportTurns(), addrs: make(map[netip.Addr]int), peers: make(map[*node.Peer]int), segments: make(map[*sharedSegment]*session)}
		s.users[uid] = u
	}
	return u
}

// sessionsOfLocked is how many sessions of a user count.
func (s *Service) sessionsOfLocked(uid uint32) int {
	if u := s.users[uid]; u != nil {
		return u.sessions
	}
	return 0
}

// endLocked gives back what a session had.
func (s *Service) endLocked(x *session) {
	u := x.user
	for p := range x.met {
		u.leaveLocked(p)
	}
	if met := x.met; len(met) > 0 {
		s.work.Go(func() {
			for p := range met {
				p.Release()
			}
		})
	}
	x.met = nil
	if u.sessions--; u.sessions > 0 {
		return
	}
	delete(s.users, u.uid)
	if o := u.regions.Load(); o != nil {
		s.work.Go(func() { _ = o.Close(context.Background()) }) // what is within the owner ends by itself
	}
}

// leaveLocked follows the end of a session's use of a connection.
func (u *user) leaveLocked(p *node.Peer) {
	if u.peers[p]--; u.peers[p] <= 0 {
		delete(u.peers, p)
	}
}

// meet finds or makes the connection from la to a remote address for a session, and counts
// it as used by the session's user.
func (s *Service) meet(x *session, la *node.Local, remote netip.Addr) (*node.Peer, error) {
	u := x.user
	known := x.node.Known(la.Addr, remote)
	shares := &s.config().Users
	s.mu.Lock()
	if known != nil && u.peers[known] > 0 {
		u.useLocked(x, known)
		s.mu.Unlock()
		return known, nil
	}
	if shares.Binds(u.uid) && len(u.peers)+u.meeting >= shares.Peers {
		s.mu.Unlock()
		return nil, s.beyond(u, shares.Peers, "peers")
	}
	u.meeting++
	s.mu.Unlock()
	p, err := x.node.Peer(la, remote)
	s.mu.Lock()
	u.meeting--
	if err == nil {
		u.useLocked(x, p)
	}
	s.mu.Unlock()
	if err == nil {
		p.Release() // the session holds it now
	}
	return p, err
}

// useLocked notes that a session uses a connection, which it holds until it ends:
// submissions name the connection. The caller, or another session of the user, holds it.
func (u *user) useLocked(x *session, p *node.Peer) {
	if _, ok := x.met[p]; ok {
		return
	}
	if x.met == nil {
		x.met = make(map[*node.Peer]struct{})
	}
	x.met[p] = struct{}{}
	x.heard.Add(p.Index)
	u.peers[p]++
	p.Retain()
	p.Told.Store(true)
	p.Proved()
}

// usersOfPeers lists whose applications use each connection.
func (s *Service) usersOfPeers() map[*node.Peer][]uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[*node.Peer][]uint32)
	for uid, u := range s.users {
		for p := range u.peers {
			all[p] = append(all[p], uid)
		}
	}
	return all
}

// occupy counts a socket of a session at an address, if the shares allow it. own is whether
// the address is of the node's list.
func (s *Service) occupy(x *session, addr netip.Addr, own bool) error {
	u := x.user
	shares := &s.config().Users
	s.mu.Lock()
	defer s.mu.Unlock()
	if shares.Binds(u.uid) {
		if u.sockets >= shares.Sockets {
			return s.beyond(u, shares.Sockets, "sockets")
		}
		if !own && u.addrs[addr] == 0 && len(u.addrs) >= shares.Addresses {
			return s.beyond(u, shares.Addresses, "addresses")
		}
	}
	u.occupyLocked(addr)
	return nil
}

func (u *user) occupyLocked(addr netip.Addr) {
	u.sockets++
	u.addrs[addr]++
}

// beyond is the error of what is beyond a share, which it counts.
func (s *Service) beyond(u *user, share int, what string) error {
	s.node.Counters.UserRefused.Add(1)
	return fmt.Errorf("%d %s are the share of user %d: %w", share, what, u.uid, datagram.ErrQuota)
}

// vacate gives back what occupy counted.
func (s *Service) vacate(x *session, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.user.vacateLocked(addr)
}

func (u *user) vacateLocked(addr netip.Addr) {
	u.sockets--
	if n := u.addrs[addr]; n > 1 {
		u.addrs[addr] = n - 1
	} else {
		delete(u.addrs, addr)
	}
}

// regionsOf is who the regions of a user's sessions are within.
func (s *Service) regionsOf(u *user, d *mr.Device) *mr.Owner {
	u.regionsOnce.Do(func() {
		shares := &s.config().Users
		c := mr.OwnerConfig{Name: fmt.Sprintf("user %d", u.uid), Items: 1 << 30} // the pool's bound is lower
		if shares.Binds(u.uid) {
			c.Items, c.Pinned = shares.Regions, shares.Pinned
		}
		u.regions.Store(d.NewOwner(c))
	})
	return u.regions.Load()
}

// Users is Service.Users of package rds.
func (s *Service) Users() []info.User {
	s.mu.Lock()
	all := make([]*user, 0, len(s.users))
	for _, uid := range slices.Sorted(maps.Keys(s.users)) {
		all = append(all, s.users[uid])
	}
	s.mu.Unlock()
	out := make([]info.User, 0, len(all))
	for _, u := range all {
		s.look(u)
		s.mu.Lock()
		out = append(out, info.User{
			UID: u.uid, Sessions: u.sessions, Sockets: u.sockets, Addresses: len(u.addrs), Peers: len(u.peers), Memory: u.touched.Load(), OverMemory: u.over.Load(),
		})
		s.mu.Unlock()
	}
	return out
}

// sees tells whether a session is shown what others have, too: root, the daemon's own user,
// and those who may ask at the control socket.
func (s *Service) sees(x *session) bool {
	c := s.config()
	return x.cred.UID == 0 || int(x.cred.UID) == os.Geteuid() ||
		slices.ContainsFunc(c.ReportGroups, func(g uint32) bool { return slices.Contains(x.gids, g) })
}
