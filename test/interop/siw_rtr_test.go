//go:build interop

package interop

import (
	"net/netip"
	"strings"
	"testing"
)

// TestSIWPeerToPeer sets up peer-to-peer connections to siw. siw always wants a Write as the first
// message: an initiator that offers all kinds, as ours does, sends one. It has a guest of its own,
// because siw may take its kernel down if such a set-up ends between the Reply and the first message. So an
// initiator that offers the Send alone is not tried: it ends the set-up by a Terminate (docs/IWARP.md).
func TestSIWPeerToPeer(t *testing.T) {
	l, guests := newSIWLab(t, guestAddr)
	ours, siw := l.ourVerbs(t, netip.MustParseAddr("10.77.1.1")), l.siwVerbs(guests[0])
	s := siw.serve(t, 2, regionSpec{"r", 64})
	for _, kind := range []string{"", "write"} {
		t.Run("rtr="+kind, func(t *testing.T) {
			argv := []string{ours.rdsverbs, "op", "-a", s.at.Addr().String(), "-p", s.port(), "--not-siw", "--peer-to-peer"}
			if kind != "" {
				argv = append(argv, "--rtr", kind)
			}
			// As many messages as there are receives: the set-up has taken none.
			argv = append(argv, s.regions[0].on("read", 0, 8).word(true), operation{op: "send", length: 4, count: 2}.word(true))
			p := ours.exec(t, argv...)
			r := p.wait(t)
			o := outcome{done: parseCompletions(r.Output)}
			if r.Status != 0 || o.of("read").status != statusSuccess || o.of("send").status != statusSuccess || !strings.Contains(r.Output, `"peer_to_peer":true`) {
				t.Errorf("status %d\n%s", r.Status, r.Output)
			}
		})
	}
}
