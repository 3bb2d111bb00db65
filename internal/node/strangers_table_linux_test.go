//go:build !live

package node

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// Strangers of IPv6 are counted by their /64, those of IPv4 by their /24, and both in all.
func TestStrangersAreCountedByNetwork(t *testing.T) {
	t.Parallel()
	var s strangers
	of := func(net, host int) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::%x:1", net, host))
	}
	fill := func(addr func(i int) netip.Addr) (n int) {
		for n < 2*maxStrangers && s.enter(addr(n)) {
			n++
		}
		return n
	}
	if n := fill(func(i int) netip.Addr { return of(1, i) }); n != maxNetworkStrangers {
		t.Errorf("%d strangers of one /64", n)
	}
	if s.enter(of(1, 0xffff)) {
		t.Error("one more of the /64")
	}
	if n := fill(func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }); n != maxNetworkStrangers {
		t.Errorf("%d strangers of one /24", n)
	}
	if s.enter(netip.MustParseAddr("::ffff:192.0.2.1")) {
		t.Error("one more of the /24, as an address of IPv6")
	}
	if n := fill(func(i int) netip.Addr { return of(100+i, 1) }); n != maxStrangers-2*maxNetworkStrangers {
		t.Errorf("%d strangers of other networks", n)
	}
	s.leave(of(1, 0))
	if !s.enter(of(1, 7)) || s.enter(of(5000, 1)) {
		t.Error("the place of one that has left is not for one other")
	}
	for range maxNetworkStrangers {
		s.leave(of(1, 0))
	}
	if len(s.networks) != 1+maxStrangers-2*maxNetworkStrangers {
		t.Errorf("%d networks", len(s.networks))
	}
}

// Links of strangers are refused behind accept when their /64 or /24 has its share, and when
// there are enough strangers in all.
func TestStrangersAreRefusedBehindAccept(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		to := netip.MustParseAddr("fdff::1") // the highest address: the others dial
		l.bind(n, rdstest.AddrOf(to, 4000))
		attack := l.Net.Transport()
		defer attack.Close()
		const more = 3 // links that are refused of each kind
		refused := 0
		dial := func(what string, taken int, from func(i int) netip.Addr) {
			t.Helper()
			before := n.strangers.size()
			for i := range taken + more {
				if _, err := attack.Dial(t.Context(), from(i), to, 0); err != nil {
					t.Fatal(err)
				}
			}
			refused += more
			rdstest.Eventually(t, what, func() bool {
				return int(n.Counters.strangersRefused.Load()) == refused && n.strangers.size() == before+taken
			})
		}
		of := func(format string) func(i int) netip.Addr {
			return func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, i)) }
		}
		dial("a /64", maxNetworkStrangers, of("2001:db8:0:1::%x"))
		few := maxNetworkStrangers - 10
		for i := range 10 { // a /24 has 256 addresses only, and each is one peer
			if n.strangers.enter(of("192.0.2.%d")(i)) {
				defer n.strangers.leave(of("192.0.2.%d")(i))
			}
		}
		dial("a /24", few, of("192.0.2.%d"))
		dial("all", maxStrangers-2*maxNetworkStrangers, of("2001:db8:2:%x::1"))
	})
}
