//go:build !live

package node

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

func TestAllowList(t *testing.T) {
	t.Parallel()
	l := newAllowList(&config.Admission{Allow: rdstest.Prefixes("10.0.0.0/24", "10.1.2.3/32", "::ffff:10.9.0.0/112", "fd00:1::/64", "192.168.7.9/16")})
	for addr, want := range map[string]bool{
		"10.0.0.1": true, "10.0.0.255": true, "10.0.1.0": false, "10.1.2.3": true, "10.1.2.4": false,
		"::ffff:10.0.0.1": true, "::ffff:10.0.1.1": false, // a mapped address is its IPv4 address
		"10.9.255.1": true, "10.10.0.1": false, "::ffff:10.9.0.7": true, // a mapped prefix counts as IPv4
		"fd00:1::7": true, "fd00:1::7%eth0": true, "fd00:1:0:1::7": false, "::a00:1": false,
		"192.168.0.1": true, // the bits behind the length do not count
	} {
		if got := l.has(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	if newAllowList(&config.Admission{}) != nil || newAllowList(&config.Admission{Allow: []netip.Prefix{}}) != nil {
		t.Error("an empty list is a list")
	}
	if l := newAllowList(&config.Admission{Allow: rdstest.Prefixes("0.0.0.0/0")}); !l.has(netip.MustParseAddr("127.0.0.1")) || l.has(netip.MustParseAddr("::1")) {
		t.Error("0.0.0.0/0 is all of IPv4 and no more")
	}
}

func TestAdmissionIsValidated(t *testing.T) {
	t.Parallel()
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:0:0/95")} {
		cfg := config.Node{Admission: config.Admission{Allow: []netip.Prefix{bad}}}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "Admission.Allow") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := (&config.Node{Admission: config.Admission{Allow: make([]netip.Prefix, config.MaxPrefixes+1)}}).Validate(); err == nil {
		t.Error("no bound")
	}
	n := newLoopLab(t).node(config.Node{})
	if err := n.SetAdmission(config.Admission{Allow: []netip.Prefix{{}}}); !errors.Is(err, datagram.ErrInvalid) || !n.Allows(rdstest.Nowhere().Addr()) {
		t.Errorf("%v", err)
	}
}

// A node with an allow-list has links only with those that it names, on each wire, and
// makes no state for the others.
func TestOnlyListedPeersAreLinked(t *testing.T) {
	t.Parallel()
	for _, wire := range []config.Wire{config.WireTCP, config.WireXRC, config.WireAuto, "loop"} {
		t.Run("wire "+string(wire), func(t *testing.T) {
			bubble(t, newMemLab, func(t *testing.T, l *lab) {
				cfg := config.Node{Wire: wire}
				if wire == "loop" {
					l, cfg = newLoopLab(t), config.Node{}
				}
				friend, stranger := l.bind(l.node(cfg)), l.bind(l.node(cfg))
				cfg.Admission.Allow = []netip.Prefix{netip.PrefixFrom(friend.LocalAddrPort().Addr(), 32)}
				n := l.node(cfg)
				s := l.bind(n)
				if _, err := stranger.WriteTo([]byte("no"), s.LocalAddr()); err != nil {
					t.Fatal(err)
				}
				if _, err := friend.WriteTo([]byte("yes"), s.LocalAddr()); err != nil {
					t.Fatal(err)
				}
				rdstest.Expect(t, s, "yes")
				if a := stranger.LocalAddrPort().Addr(); n.Allows(a) || n.listed(a) {
					t.Error("the stranger is allowed")
				}
				if a := friend.LocalAddrPort().Addr(); !n.Allows(a) || !n.listed(a) {
					t.Error("the friend is not")
				}
				if a := s.LocalAddrPort().Addr(); !n.Allows(a) || n.listed(a) {
					t.Error("the own address is allowed, and not listed")
				}
				n.EachPeer(func(p *Peer) {
					if p.Remote == stranger.LocalAddrPort().Addr() {
						t.Error("there is a connection for the stranger")
					}
				})
			})
		})
	}
}

// The node's transport turns a stranger away by the allow-list before the node hears of the
// connection, and does not dial a stranger.
func TestTransportTurnsStrangersAway(t *testing.T) {
	bubbleOn(t, bothWires, func(t *testing.T, wire config.Wire) {
		l := newMemLab(t)
		stranger := l.bind(l.node(config.Node{Wire: wire}))
		s := l.bind(l.node(config.Node{Wire: wire, Admission: config.Admission{Allow: rdstest.Prefixes("192.0.2.1/32")}}))
		n := nodeOf(s)
		rdstest.MustSend(t, stranger, s.LocalAddrPort(), []byte("x"))
		rdstest.Eventually(t, "the stranger is turned away, and comes again", func() bool { return rdstest.Counter(t, n, "conn_not_allowed") > 1 })
		if got := rdstest.Counter(t, n, "send_not_allowed"); got != 0 || rdstest.Peers(n) != 0 {
			t.Errorf("%d peers, and %d were refused", rdstest.Peers(n), got)
		}
		link, err := n.wires[0].Dial(rdstest.Background(t), s.LocalAddrPort().Addr(), stranger.LocalAddrPort().Addr(), 0)
		if !errors.Is(err, transport.ErrNotAllowed) {
			t.Errorf("the dial of a stranger: %v", err)
		}
		if err == nil {
			link.Close(transport.Abort)
		}
	})
}
