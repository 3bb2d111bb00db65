//go:build live

package rds

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func only(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, port) }

// binders are the providers that know their addresses: a node, and a daemon's client. Both
// have the addresses at, or none if at is empty.
func binders(t *testing.T, f func(t *testing.T, p Provider), at ...netip.Addr) {
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		f(t, newLoopLab(t).node(Config{Addresses: at}))
	})
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		_, _, path := served(t, newLoopLab(t), Config{Addresses: at}, ServiceConfig{})
		f(t, dialed(t, path))
	})
}

func TestBindNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	at := rdstest.NewAddr()
	binders(t, func(t *testing.T, p Provider) {
		for addr, why := range map[string]string{
			"0.0.0.0:4000":     "0.0.0.0 is not the address of a host",
			"224.0.0.1:4000":   "224.0.0.1 is not the address of one host",
			at.String() + ":1": "port 1 is reserved",
		} {
			_, err := p.Bind(netip.MustParseAddrPort(addr))
			wantSaid(t, addr, err, syscall.EINVAL, "rds: bind "+addr+": ", why)
		}
	}, at)
}

// A port without an address is one of the only address. With several or none the error names
// those to choose from.
func TestPortAloneMeansTheOnlyAddress(t *testing.T) {
	t.Parallel()
	a, b := rdstest.NewAddr(), rdstest.NewAddr()
	t.Run("one", func(t *testing.T) {
		binders(t, func(t *testing.T, p Provider) {
			for _, port := range []uint16{4000, 0} {
				s, err := p.Bind(only(port))
				rdstest.Must(t, err)
				if got := s.LocalAddrPort(); got.Addr() != a || port != 0 && got.Port() != port || got.Port() < 2 {
					t.Errorf("port %d: bound %v", port, got)
				}
			}
			_, err := p.Bind(only(4000))
			wantSaid(t, "a port that is taken", err, ErrAddressInUse, "rds: bind :4000: ")
			_, err = p.Bind(only(1))
			rdstest.WantErr(t, "port 1", err, ErrInvalid)
		}, a)
	})
	t.Run("several", func(t *testing.T) {
		binders(t, func(t *testing.T, p Provider) {
			_, err := p.Bind(only(4000))
			wantSaid(t, "several", err, ErrInvalid, "rds: bind :4000: ", "there are several", a.String(), b.String())
		}, a, b)
	})
	t.Run("none", func(t *testing.T) {
		binders(t, func(t *testing.T, p Provider) {
			_, err := p.Bind(only(4000))
			wantSaid(t, "none", err, ErrInvalid, "rds: bind :4000: ", "there is none yet", "127.0.0.1")
			bound(t, p, rdstest.AddrOf(a, 4001)) // the node has an address from then on
			s, err := p.Bind(only(4000))
			if err != nil || s.LocalAddrPort() != rdstest.AddrOf(a, 4000) {
				t.Errorf("%v, %v", s, err)
			}
		})
	})
}

// An address that is not the daemon's, or not the host's: the error says whose it should be
// and what there is.
func TestForeignAddressNamesOurs(t *testing.T) {
	t.Parallel()
	foreign := netip.MustParseAddrPort("203.0.113.7:4000")
	at := rdstest.NewAddr()
	_, _, path := served(t, newLoopLab(t), Config{Addresses: []netip.Addr{at}}, ServiceConfig{})
	_, err := dialed(t, path).Bind(foreign)
	wantSaid(t, "a daemon with addresses", err, ErrAddressNotAvailable, "rds: bind 203.0.113.7:4000: ", "not an address of rdsd, which has "+at.String())
	l := newLab(t)
	_, err = l.node(Config{}).Bind(foreign)
	wantSaid(t, "a node", err, ErrAddressNotAvailable, "rds: bind 203.0.113.7:4000: ", "not an address of this host, which has ", "127.0.0.1")
	_, _, path = served(t, l, Config{}, ServiceConfig{})
	_, err = dialed(t, path).Bind(foreign)
	wantSaid(t, "a daemon without", err, syscall.EADDRNOTAVAIL, "not an address of this host, which has ", "127.0.0.1")
}

// Of the addresses of a name the first that the provider has is bound.
func TestListenTakesTheFirstAddressThereIs(t *testing.T) {
	t.Parallel()
	at := rdstest.NewAddr()
	_, _, path := served(t, newLoopLab(t), Config{Addresses: []netip.Addr{at}}, ServiceConfig{})
	c := dialed(t, path)
	s, err := bindFirst(t.Context(), c, []netip.AddrPort{rdstest.AddrOf(rdstest.NewAddr(), 4000), rdstest.AddrOf(at, 4000), rdstest.AddrOf(rdstest.NewAddr(), 4000)})
	if err != nil || s.LocalAddrPort() != rdstest.AddrOf(at, 4000) {
		t.Fatal(s, err)
	}
	_, err = bindFirst(t.Context(), c, []netip.AddrPort{rdstest.AddrOf(at, 4000), rdstest.AddrOf(rdstest.NewAddr(), 4000)})
	rdstest.WantErr(t, "taken", err, ErrAddressInUse) // not the next one's error
	_, all, err := localAddrs(t.Context(), "localhost:4000")
	if err != nil || all[0].String() != "127.0.0.1:4000" {
		t.Error(all, err)
	}
	_, all, err = localAddrs(t.Context(), ":4000")
	if err != nil || len(all) != 1 || all[0] != only(4000) {
		t.Error(all, err)
	}
}
