//go:build live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport"
)

// Set-ups that a peer begins and does not finish are bounded, and connections that are set
// up are none of them, whichever side is to speak first.
func TestSetUpsOfAPeerAreBounded(t *testing.T) {
	t.Parallel()
	server := openDevice(t, Config{})
	halfOpen := func() int { return server.engine.Stats().HalfOpen }
	type connection struct{ from, to *end }
	var kept []connection
	for _, p := range []ConnParams{{}, {PeerToPeer: true}} {
		from, to := newEnd(t, openDevice(t, Config{}), QPConfig{SignalAll: true}), newEnd(t, server, QPConfig{})
		m := to.reg(8, allRights)
		to.post(1, m.SGE(0, 8))
		connectEnds(t, from, to, p, p)
		kept = append(kept, connection{from, to})
	}
	eventually(t, "no connection that is set up is half-open", func() bool { return halfOpen() == 0 })
	ln := listen(t, server)
	defer ln.Close()
	const more = 5
	var peers []*raw
	for range transport.MostSetupsOfPeer + more {
		peers = append(peers, dialRaw(t, ln.Addr()))
	}
	for _, p := range peers[:more] {
		p.gone()
	}
	if n, c := halfOpen(), server.Stats().Crowded; n != transport.MostSetupsOfPeer || c != more {
		t.Errorf("%d set-ups have begun, %d ended for others", n, c)
	}
	for _, c := range kept {
		c.from.send(WorkRequest{ID: 2, Inline: []byte("there")})
		c.to.want(1, Success, OpReceive)
	}
}
