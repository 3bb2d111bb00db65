//go:build !live

package gnetloop

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// One more connection than there may be ends the greediest address's oldest, of equals that
// of the network with the most, and of one address its own oldest. The counts are right
// whatever comes and goes.
func TestGreediestLosesFirst(t *testing.T) {
	t.Parallel()
	h := halfOpen{most: 6, each: 3}
	at := func(a string) *Conn {
		return &Conn{remote: netip.AddrPortFrom(netip.MustParseAddr(a), 1)}
	}
	var conns []*Conn
	for i, step := range []struct {
		from  string
		loser int // -1: none
	}{
		{"10.0.0.1", -1}, {"10.0.0.1", -1}, {"10.0.0.1", -1},
		{"10.0.0.1", 0},         // 1, 2, 3 of one address
		{"10.0.1.1", -1},        // 4
		{"10.0.1.2", -1},        // 5
		{"2001:db8::1", -1},     // 6
		{"10.9.0.1", 1},         // 7: the address with three loses
		{"10.9.1.1", 2},         // 8: the one with two
		{"10.9.2.1", 4},         // 9: all have one, 10.0.1.0/24 has two
		{"10.9.3.1", 3},         // 10: all have one, and so have their networks: the oldest
		{"2001:db8::ffff", 5},   // 11
		{"2001:db8::fffe", 6},   // 12: a /64 with two
		{"::ffff:10.9.4.1", -2}, // 13: the /64 again
	} {
		c := at(step.from)
		conns = append(conns, c)
		loser := h.add(c)
		if step.loser == -1 && loser != nil || step.loser >= 0 && loser != conns[step.loser] {
			t.Fatalf("connection %d of %s: loser %v", i, step.from, loser)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	h = halfOpen{most: 50, each: 5}
	conns = nil
	for range 10_000 {
		if len(conns) > 0 && r.IntN(3) == 0 {
			h.remove(conns[r.IntN(len(conns))])
			continue
		}
		c := at(netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(3)), byte(r.IntN(30))}).String())
		conns = append(conns, c)
		h.add(c)
		sum, near := 0, 0
		for _, n := range h.of {
			if sum += n; n < 1 || n > 5 {
				t.Fatalf("%d connections of an address", n)
			}
		}
		for _, n := range h.near {
			near += n
		}
		if len(h.conns) > 50 || sum != len(h.conns) || near != sum {
			t.Fatalf("%d connections, %d by addresses, %d by networks", len(h.conns), sum, near)
		}
	}
}
