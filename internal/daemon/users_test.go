//go:build !live

package daemon

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// A user's applications share peers: what is beyond the share is refused, what exists is
// not, and all is given back with the sessions.
func TestPeersOfAUser(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{Linger: -1}, config.Service{Users: config.UserShares{Peers: 3}})
		here := rdstest.NewAddr()
		a, b := dialed(t, path), dialed(t, path)
		first, second := bound(t, a, rdstest.AddrOf(here, 5)), bound(t, b, rdstest.AddrOf(here, 6))
		known := rdstest.Nowhere()
		rdstest.MustSend(t, first, known, []byte("1"))
		rdstest.MustSend(t, first, rdstest.Nowhere(), []byte("1"))
		rdstest.MustSend(t, second, rdstest.Nowhere(), []byte("1"))
		err := second.TrySend(rdstest.Nowhere(), []byte("beyond"))
		rdstest.WantErr(t, "a fourth peer", err, datagram.ErrQuota, syscall.EDQUOT)
		if want := fmt.Sprintf("3 peers are the share of user %d", os.Getuid()); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		rdstest.MustSend(t, second, known, []byte("used by the other one"))
		if got := rdstest.SharesOf(svc); got.Peers != 3 || got.Sessions != 2 || got.Sockets != 2 {
			t.Errorf("%+v", got)
		}
		_ = a.Close()
		rdstest.Eventually(t, "one peer to be given back", func() bool { return rdstest.SharesOf(svc).Peers == 2 }) // known, and second's
		rdstest.MustSend(t, second, rdstest.Nowhere(), []byte("1"))
		rdstest.Must(t, svc.Reload(config.Service{Users: config.UserShares{Peers: 4}}))
		rdstest.MustSend(t, second, rdstest.Nowhere(), []byte("of the larger share"))
		_ = b.Close()
		rdstest.Eventually(t, "everything to be given back", func() bool { return len(svc.Users()) == 0 })
	})
}

// Sockets count until they have ended, by address and in all.
func TestSocketsOfAUser(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{}, config.Service{Users: config.UserShares{Sockets: 3, Addresses: 2}})
		c := dialed(t, path)
		here, there := rdstest.NewAddr(), rdstest.NewAddr()
		s := bound(t, c, rdstest.AddrOf(here, 5))
		other := bound(t, c, rdstest.AddrOf(there, 5))
		_, err := c.Bind(rdstest.AddrOf(rdstest.NewAddr(), 5))
		rdstest.WantErr(t, "a third address", err, datagram.ErrQuota, syscall.EDQUOT)
		_, err = c.Bind(rdstest.AddrOf(here, 5))
		rdstest.WantErr(t, "a port that is taken", err, datagram.ErrAddressInUse)
		bound(t, c, rdstest.AddrOf(here, 6))
		_, err = c.Bind(rdstest.AddrOf(here, 7))
		rdstest.WantErr(t, "a fourth socket", err, datagram.ErrQuota)
		if want := fmt.Sprintf("3 sockets are the share of user %d", os.Getuid()); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		_ = s.Close()
		_ = other.Close()
		rdstest.Eventually(t, "shares to be given back", func() bool { u := rdstest.SharesOf(svc); return u.Sockets == 1 && u.Addresses == 1 })
		bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 5))
	})
}

// Who is exempt has no shares.
func TestExemptUser(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, _, path := served(t, l, config.Node{}, config.Service{Users: config.UserShares{Sockets: 1, Peers: 1, Exempt: []uint32{uint32(os.Getuid())}}})
		c := dialed(t, path)
		here := rdstest.NewAddr()
		s := bound(t, c, rdstest.AddrOf(here, 5))
		bound(t, c, rdstest.AddrOf(here, 6))
		for range 3 {
			rdstest.MustSend(t, s, rdstest.Nowhere(), []byte("1"))
		}
	})
}

// A report of a user's own has nothing of anybody else.
func TestReportOfAUser(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		mine, theirs, node := info.Whose{App: true, UID: 7}, info.Whose{App: true, UID: 0}, info.Whose{}
		at, remote, other := rdstest.AddrOf(rdstest.NewAddr(), 1), rdstest.NewAddr(), rdstest.NewAddr()
		conns := func(r netip.Addr, users ...uint32) info.Connection {
			return info.Connection{Local: at.Addr(), Remote: r, Users: users}
		}
		all := info.Report{
			Addresses: []netip.Addr{at.Addr()}, Counters: make([]transport.Counter, 1), Memory: new(info.Memory),
			Sockets:     []info.Socket{{Bound: at, Whose: mine}, {Bound: rdstest.AddrOf(at.Addr(), 2), Whose: theirs}, {Bound: rdstest.AddrOf(at.Addr(), 3), Whose: node}},
			Connections: []info.Connection{conns(remote, 0, 7), conns(other, 0)},
			TCP:         []info.TCP{{Local: at, Remote: rdstest.AddrOf(remote, 9)}, {Local: at, Remote: rdstest.AddrOf(other, 9)}},
			XRC:         []info.XRC{{Local: at, Remote: rdstest.AddrOf(other, 9)}, {Local: at, Remote: rdstest.AddrOf(remote, 9)}},
			SendQueue:   []info.Queued{{Bytes: 1, Whose: theirs}, {Bytes: 2, Whose: mine}}, Retransmit: []info.Queued{{Whose: node}}, Receive: []info.Queued{{Bytes: 3, Whose: mine}, {}},
			Sessions: []info.Session{{UID: 0}, {UID: 7}}, Users: []info.User{{UID: 0}, {UID: 7}},
			Waits: []info.Wait{
				{Cause: info.CauseCongested, Whose: mine, Owner: "secret", OwnerPID: 1, Holder: theirs}, {Cause: info.CauseCongested, Whose: mine, Owner: "me", OwnerPID: 2, Holder: mine}, {Cause: info.CauseBudget, Whose: theirs},
				{Cause: info.CauseRefused, Local: at}, {Cause: info.CauseRefused, Local: rdstest.AddrOf(at.Addr(), 2)}, {Cause: info.CauseFallenBack, Remote: rdstest.AddrOf(other, 0)},
			},
		}
		got := all.Of(7)
		if len(got.Sockets) != 1 || got.Sockets[0].Bound != at || len(got.Connections) != 1 || got.Connections[0].Remote != remote || len(got.TCP) != 1 || got.TCP[0].Remote.Addr() != remote ||
			len(got.XRC) != 1 || got.XRC[0].Remote.Addr() != remote || len(got.SendQueue) != 1 || got.SendQueue[0].Bytes != 2 || len(got.Retransmit) != 0 || len(got.Receive) != 1 || got.Receive[0].Bytes != 3 ||
			len(got.Sessions) != 1 || got.Sessions[0].UID != 7 || len(got.Users) != 1 || got.Users[0].UID != 7 || got.Counters != nil || got.Memory != nil || got.LeftOut == "" {
			t.Errorf("%+v", got)
		}
		if w := got.Waits; len(w) != 3 || w[0].Owner != "" || w[0].OwnerPID != 0 || w[1].Owner != "me" || w[2].Local != at {
			t.Errorf("waits %+v", w)
		}
	})
}
