//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
)

// A message that is sent again comes before the peer states a generation of which nothing was
// known, in the same burst or in one before it. When the peer has ended and comes back, the
// message is an old one.
func TestWhatCameBeforeItsGenerationIsRemembered(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		l := newLab(t)
		peer := l.Raw()
		n, _, path := served(t, l, config.Node{Wire: config.WireTCP}, config.Service{})
		addr := rdstest.NewAddr()
		for !peer.Addr.Less(addr) {
			addr = rdstest.NewAddr()
		}
		to := bound(t, dialed(t, path), rdstest.AddrOf(addr, 100))
		const sequence = 1<<60 + 5
		again := rdstest.Message(wire.Header{Sequence: sequence, Sport: 9, Dport: 100, Flags: wire.FlagRetransmitted}, []byte("once"))
		old := func() uint64 { return rdstest.Counter(t, n, "recv_drop_old_seq") }
		for round := range uint64(2) {
			r := peer.Dial(addr)
			r.Seq, r.Hs = sequence+1, wire.Handshake{HasPaths: true, Paths: 1, Generation: 7}
			statement := r.Probe(r.Hs)
			if together {
				r.Put(append(again, statement...))
			} else {
				r.Put(again)
				if round == 0 {
					rdstest.Expect(t, to, "once")
				}
				r.Put(statement)
			}
			for { // until the answer to the statement
				h, _, err := r.Next()
				rdstest.Must(t, err)
				if h.Sport == wire.PortHost && h.Dport == wire.PortProbe {
					break
				}
			}
			if round == 0 && together {
				rdstest.Expect(t, to, "once")
			}
			if old() != round {
				t.Errorf("together: %t: in round %d the message was old %d times", together, round, old())
			}
			_ = r.Close()
			rdstest.Eventually(t, "the peer to end", func() bool { return rdstest.Peers(n) == 0 })
		}
	}
}
