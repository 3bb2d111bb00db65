//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// testResets breaks connections that are full of data, in all the ways there
// are. Both sides flush what was posted, regions stay registered, and a new
// connection uses them by the same keys.
func testResets(t *testing.T, attacker, target verbs) {
	s := target.serve(t, append([]string{"recv:4:8192"}, faultRegions...)...)
	for _, op := range []string{"write", "read"} {
		for _, how := range []struct {
			name string
			do   func(t *testing.T, attack *program)
		}{
			{"reset by the initiator", func(t *testing.T, _ *program) { attacker.reset(t, s.at.Port()) }},
			{"reset by the responder", func(t *testing.T, _ *program) { target.reset(t, s.at.Port()) }},
			{"killed", func(t *testing.T, attack *program) { attack.kill(t) }},
		} {
			t.Run(op+"/"+how.name, func(t *testing.T) {
				attack := attacker.startAttack(t, s, s.regions[regionAll].on(op, 0, 65536)+":1000000")
				s.expect(t, fmt.Sprintf(`(?m)^connected %d\n`, s.conns))
				attacker.l.awaitTraffic(t)
				how.do(t, attack)
				end := attack.wait(t)
				if end.Status >= 0 && !regexp.MustCompile(`status [25] |unanswered`).MatchString(end.Output) {
					t.Errorf("nothing was flushed:\n%s", end.Output)
				}
				s.expect(t, fmt.Sprintf(`completed %d recv status 5 .* count 4 .*\ndisconnected %[1]d\n`, s.conns))
				testKeysStayValid(t, attacker, s)
			})
		}
	}
	s.tell(t, "quit")
	s.succeed(t)
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
	if err != nil {
		t.Fatal(err)
	}
}

// reset aborts the TCP connection that an end has with a port.
func (v verbs) reset(t *testing.T, port uint16) {
	t.Helper()
	for _, c := range v.tcp(t, port, false) {
		if c.Established {
			if err := v.call(t.Context(), peer.OpDestroy, c, nil); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no connection", v.name)
}
