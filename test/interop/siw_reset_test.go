//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// testResets breaks connections that are full of data, in all the ways there
// are. Both sides flush what was posted, regions stay registered, and a new
// connection uses them by the same keys.
func testResets(t *testing.T, attacker, target verbs) {
	s := target.serve(t, 4, faultRegions...)
	for _, op := range []string{"write", "read"} {
		for _, how := range []struct {
			name string
			do   func(t *testing.T, a *attack)
		}{
			{"reset by the initiator", func(t *testing.T, _ *attack) { attacker.reset(t, s.at.Port()) }},
			{"reset by the responder", func(t *testing.T, _ *attack) { target.reset(t, s.at.Port()) }},
			{"killed", nil},
		} {
			t.Run(op+"/"+how.name, func(t *testing.T) {
				o := s.regions[regionAll].on(op, 0, 65536)
				o.count = 1_000_000
				a := attacker.startAttack(t, s, o)
				s.awaitConn(t)
				attacker.l.awaitTraffic(t)
				if how.do == nil {
					a.kill(t)
				} else {
					how.do(t, a)
					if got := a.finish(t, target.ours); !got.broken(op) {
						t.Errorf("nothing was flushed: %+v", got)
					}
				}
				s.awaitEnd(t)
				testKeysStayValid(t, attacker, s)
			})
		}
	}
	s.quit(t)
}

// broken tells whether operations were flushed, or failed to be sent. What siw
// takes after the end of a connection it may never complete.
func (o outcome) broken(op string) bool {
	last := o.of(op)
	return o.refusal == none && (last.status != statusSuccess || last.count < 1_000_000)
}

// awaitTraffic waits until the first guest has sent and received a lot more.
func (l *lab) awaitTraffic(t *testing.T) {
	t.Helper()
	total := func() (n int64, err error) {
		out, err := exec.Command("ip", "-n", l.netns, "-json", "-statistics", "link", "show", "tap0").Output()
		if err != nil {
			return 0, err
		}
		var links []struct {
			Stats64 struct{ RX, TX struct{ Bytes int64 } }
		}
		if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
		return links[0].Stats64.RX.Bytes + links[0].Stats64.TX.Bytes, nil
	}
	start, err := total()
	if err == nil {
		err = poll(t.Context(), func() (bool, error) {
			now, err := total()
			return now > start+1<<20, err
		})
	}
	must(t, err)
}

// reset aborts the TCP connection that an end has with a port.
func (v verbs) reset(t *testing.T, port uint16) {
	t.Helper()
	for _, c := range v.tcp(t, port, false) {
		if c.Established {
			must(t, v.call(t.Context(), peer.OpDestroy, c, nil))
			return
		}
	}
	t.Fatalf("%s has no connection", v.name)
}
