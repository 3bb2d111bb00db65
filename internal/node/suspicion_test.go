//go:build !live

package node

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport"
)

// guesser is a socket whose operations towards a peer end as the test says.
type guesser struct {
	s *Socket
	p *Peer
}

func (g guesser) operate(end transport.OpStatus) bool {
	op := &Operation{S: g.s, Peer: g.p}
	op.worst.Store(uint32(end))
	if !g.p.trustsLocked(op) {
		return false
	}
	g.p.learnLocked(op)
	return true
}

// refused counts the operations of the socket that may begin now, one after the other, if the
// peer refuses them all.
func (g guesser) refused() (n int) {
	for n < 100 && g.operate(transport.OpRefused) {
		n++
	}
	return n
}

// A suspected socket has its share of the refusals that a peer grants the host, and all
// suspected sockets together have no more than the host's part. What succeeds costs nothing.
func TestRatesOfSuspects(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		p := &Peer{Node: &Node{suspicion: suspicionRates{suspects: 8, share: 4, strangers: 4}}, Remote: netip.MustParseAddr("10.0.0.1")}
		var sockets [3]guesser
		for i := range sockets {
			sockets[i] = guesser{new(Socket), p}
		}
		want := func(when string, list ...int) {
			t.Helper()
			for i, most := range list {
				if n := sockets[i].refused(); n != most {
					t.Errorf("%s, the peer refuses %d operations of socket %d, want %d", when, n, i, most)
				}
			}
		}
		want("at first", 4, 4, 1) // The first operation of a socket is trusted, and is a refusal too many here.
		want("at once", 0, 0, 0)
		<-time.After(time.Second / 4)
		want("later", 1, 0, 0) // 9 refusals of 8 leave 1 of the next 2.
		<-time.After(time.Second)
		want("a second later", 4, 4, 0)
		<-time.After(10 * time.Second)
		for range 100 {
			if !sockets[0].operate(transport.OpSuccess) {
				t.Fatal("an operation that succeeds is not trusted")
			}
		}
		want("after successes", 4, 4, 0)
	})
}

// A socket that was refused an operation has one at a time towards the peer.
func TestSuspectOperatesOneAtATime(t *testing.T) {
	t.Parallel()
	p := &Peer{Node: &Node{suspicion: suspicionRatesOf(0)}, Remote: netip.MustParseAddr("10.0.0.1")}
	g := guesser{new(Socket), p}
	first := &Operation{S: g.s, Peer: p}
	g.s.ops.add(first)
	if !g.operate(transport.OpRefused) {
		t.Error("a socket without a refusal has one operation at a time")
	}
	if g.operate(transport.OpRefused) {
		t.Error("a second operation begins while the first one is under way")
	}
	g.s.ops.remove(first)
	if !g.operate(transport.OpRefused) {
		t.Error("the next operation does not begin")
	}
}
