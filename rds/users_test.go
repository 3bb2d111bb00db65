package rds

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/rds-go/rds/transport"
)

// sharesOf is what the user of this process has.
func sharesOf(svc *Service) UserInfo {
	for _, u := range svc.Users() {
		if u.UID == uint32(os.Getuid()) {
			return u
		}
	}
	return UserInfo{}
}

// A user's applications share peers: what is beyond the share is refused, what exists is
// not, and all is given back with the sessions.
func TestPeersOfAUser(t *testing.T) {
	t.Parallel()
	_, svc, path := served(t, newLoopLab(t), Config{Linger: -1}, ServiceConfig{Users: UserShares{Peers: 3}})
	here := newAddr()
	a, b := dialed(t, path), dialed(t, path)
	first, second := bound(t, a, addrOf(here, 5)), bound(t, b, addrOf(here, 6))
	known := nowhere()
	mustSend(t, first, known, []byte("1"))
	mustSend(t, first, nowhere(), []byte("1"))
	mustSend(t, second, nowhere(), []byte("1"))
	err := second.TrySend(nowhere(), []byte("beyond"))
	wantErr(t, "a fourth peer", err, ErrQuota, syscall.EDQUOT)
	mustSend(t, second, known, []byte("used by the other one"))
	if got := sharesOf(svc); got.Peers != 3 || got.Sessions != 2 || got.Sockets != 2 {
		t.Errorf("%+v", got)
	}
	_ = a.Close()
	eventually(t, "one peer to be given back", func() bool { return sharesOf(svc).Peers == 2 }) // known, and second's
	mustSend(t, second, nowhere(), []byte("1"))
	_ = b.Close()
	eventually(t, "everything to be given back", func() bool { return len(svc.Users()) == 0 })
}

// Sockets count until they have ended, by address and in all.
func TestSocketsOfAUser(t *testing.T) {
	t.Parallel()
	_, svc, path := served(t, newLoopLab(t), Config{}, ServiceConfig{Users: UserShares{Sockets: 3, Addresses: 2}})
	c := dialed(t, path)
	here, there := newAddr(), newAddr()
	s := bound(t, c, addrOf(here, 5))
	other := bound(t, c, addrOf(there, 5))
	_, err := c.Bind(addrOf(newAddr(), 5))
	wantErr(t, "a third address", err, ErrQuota, syscall.EDQUOT)
	_, err = c.Bind(addrOf(here, 5))
	wantErr(t, "a port that is taken", err, ErrAddressInUse)
	bound(t, c, addrOf(here, 6))
	_, err = c.Bind(addrOf(here, 7))
	wantErr(t, "a fourth socket", err, ErrQuota)
	_ = s.Close()
	_ = other.Close()
	eventually(t, "shares to be given back", func() bool { u := sharesOf(svc); return u.Sockets == 1 && u.Addresses == 1 })
	bound(t, c, addrOf(newAddr(), 5))
}

// Who is exempt has no shares.
func TestExemptUser(t *testing.T) {
	t.Parallel()
	_, _, path := served(t, newLoopLab(t), Config{}, ServiceConfig{Users: UserShares{Sockets: 1, Peers: 1, Exempt: []uint32{uint32(os.Getuid())}}})
	c := dialed(t, path)
	here := newAddr()
	s := bound(t, c, addrOf(here, 5))
	bound(t, c, addrOf(here, 6))
	for range 3 {
		mustSend(t, s, nowhere(), []byte("1"))
	}
}

// A user's sessions together may have as many regions as the user's share, and else as the
// user leaves free. They have an owner together, which ends with the last of them.
func TestRegionsOfAUser(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	node, svc, path := served(t, l, Config{Wire: WireXRC}, ServiceConfig{Users: UserShares{Regions: 5}})
	n := 0
	here := newAddr()
	device, _, err := node.regions()
	if err != nil {
		t.Fatal(err)
	}
	owners := device.Stats().Owners
	var clients []*Client
	for i := range 3 {
		c := dialed(t, path)
		clients = append(clients, c)
		s := bound(t, c, addrOf(here, uint16(5+i)))
		m, e := s.AllocMemory(64)
		if e != nil {
			t.Fatal(e)
		}
		for range 4 {
			if _, e := s.GetMR(m.B, MRReadWrite); e != nil {
				err = e
				break
			}
			n++
		}
	}
	if n != 5 || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%d regions, then %v", n, err)
	}
	for i, c := range clients {
		if got := device.Stats().Owners; got <= owners {
			t.Errorf("%d owners while %d sessions have regions, %d before", got, len(clients)-i, owners)
		}
		_ = c.Close()
	}
	eventually(t, "the user's end", func() bool { return len(svc.Users()) == 0 })
	eventually(t, "the end of all owners of regions", func() bool { return device.Stats().Owners == owners })
}

// A report of a user's own has nothing of anybody else.
func TestReportOfAUser(t *testing.T) {
	t.Parallel()
	mine, theirs, node := whose{true, 7}, whose{true, 0}, whose{}
	at, remote, other := addrOf(newAddr(), 1), newAddr(), newAddr()
	conns := func(r netip.Addr, users ...uint32) ConnectionInfo {
		return ConnectionInfo{Local: at.Addr(), Remote: r, users: users}
	}
	all := Info{
		Addresses: []netip.Addr{at.Addr()}, Counters: make([]transport.Counter, 1), Memory: new(MemoryInfo),
		Sockets:     []SocketInfo{{Bound: at, whose: mine}, {Bound: addrOf(at.Addr(), 2), whose: theirs}, {Bound: addrOf(at.Addr(), 3), whose: node}},
		Connections: []ConnectionInfo{conns(remote, 0, 7), conns(other, 0)},
		TCP:         []TCPInfo{{Local: at, Remote: addrOf(remote, 9)}, {Local: at, Remote: addrOf(other, 9)}},
		XRC:         []XRCInfo{{Local: at, Remote: addrOf(other, 9)}, {Local: at, Remote: addrOf(remote, 9)}},
		SendQueue:   []QueuedInfo{{Bytes: 1, whose: theirs}, {Bytes: 2, whose: mine}}, Retransmit: []QueuedInfo{{whose: node}}, Receive: []QueuedInfo{{Bytes: 3, whose: mine}, {}},
		Sessions: []SessionInfo{{UID: 0}, {UID: 7}}, Users: []UserInfo{{UID: 0}, {UID: 7}},
		Waits: []WaitInfo{
			{Cause: CauseCongested, whose: mine, Owner: "secret", OwnerPID: 1, holder: theirs}, {Cause: CauseCongested, whose: mine, Owner: "me", OwnerPID: 2, holder: mine}, {Cause: CauseBudget, whose: theirs},
			{Cause: CauseRefused, Local: at}, {Cause: CauseRefused, Local: addrOf(at.Addr(), 2)}, {Cause: CauseFallenBack, Remote: addrOf(other, 0)},
		},
	}
	got := all.of(7)
	if len(got.Sockets) != 1 || got.Sockets[0].Bound != at || len(got.Connections) != 1 || got.Connections[0].Remote != remote || len(got.TCP) != 1 || got.TCP[0].Remote.Addr() != remote ||
		len(got.XRC) != 1 || got.XRC[0].Remote.Addr() != remote || len(got.SendQueue) != 1 || got.SendQueue[0].Bytes != 2 || len(got.Retransmit) != 0 || len(got.Receive) != 1 || got.Receive[0].Bytes != 3 ||
		len(got.Sessions) != 1 || got.Sessions[0].UID != 7 || len(got.Users) != 1 || got.Users[0].UID != 7 || got.Counters != nil || got.Memory != nil || got.LeftOut == "" {
		t.Errorf("%+v", got)
	}
	if w := got.Waits; len(w) != 3 || w[0].Owner != "" || w[0].OwnerPID != 0 || w[1].Owner != "me" || w[2].Local != at {
		t.Errorf("waits %+v", w)
	}
}
