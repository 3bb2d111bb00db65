//go:build live

package node

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A pair moves between XRC and TCP under traffic both ways while its connections are
// cut at random bytes: each message arrives once and in order. It is alone in the
// process: the descriptors it cuts are found by number.
func TestMovesUnderTraffic(t *testing.T) {
	moves := 10
	if os.Getenv("RDS_LONG") != "" {
		moves = 1000
	}
	for _, c := range []struct{ paths, streams int }{{1, 6}, {8, 6}, {1, 1}, {8, 1}} {
		t.Run(fmt.Sprintf("%d paths, %d streams", c.paths, c.streams), func(t *testing.T) {
			m := newMover(newLab(t), config.Node{Paths: c.paths, ReconnectMax: 20 * time.Millisecond})
			m.streams(c.streams)
			if c.streams == 1 { // behind more than that each addition takes as long as a move
				m.additions()
			}
			cuts := m.cutting()
			t.Cleanup(cuts)
			rdstest.Eventually(t, "the first choice", func() bool { return m.serving() != "" })
			for n := 0; n < moves || c.streams == 1 && m.added.Load() == 0; n++ {
				to := map[string]string{"xrc": "tcp", "tcp": "xrc"}[m.serving()]
				rdstest.Eventually(t, "move", func() bool {
					if s := m.pair.State(m.near, m.there); s.Wire != to && s.Moving == "" { // at first, or a cut has prevented it
						if err := m.pair.Move(m.near, m.there, to, "a test"); err != nil {
							t.Error(err)
							return true
						}
					}
					return m.serving() == to || t.Failed()
				})
				if n%4 == 0 {
					rdstest.Eventually(t, "most paths", func() bool {
						up, _ := m.links()
						return up > c.paths/2 || m.serving() != to || t.Failed()
					})
				}
				got := m.got.Load()
				rdstest.Eventually(t, "traffic", func() bool { return m.got.Load() >= got+100 || t.Failed() })
				// The choice of a transport, and messages of the link before, may come before the first link of that transport.
				rdstest.Eventually(t, "the end of a link", func() bool {
					_, ended := m.links()
					return ended > n || t.Failed()
				})
				if c.streams == 1 && to == "xrc" {
					rdstest.Eventually(t, "an addition", func() bool { return m.added.Load() > 0 || m.serving() != to || t.Failed() })
				}
				if t.Failed() {
					t.Fatalf("move %d to %s", n, to)
				}
			}
			rdstest.Eventually(t, "a cut", func() bool { return m.cuts.Load() > 0 })
			cuts()
			m.finish()
			_, ended := m.links()
			t.Logf("%d moves, %d cuts, %d links lost or left, %d messages, %d repeated, %d came twice", moves, m.cuts.Load(), ended, m.got.Load(),
				rdstest.Counter(t, m.a, "send_retransmitted")+rdstest.Counter(t, m.b, "send_retransmitted"), rdstest.Counter(t, m.a, "recv_drop_old_seq")+rdstest.Counter(t, m.b, "recv_drop_old_seq"))
			if ended < moves || m.got.Load() == 0 {
				t.Error("nothing has happened")
			}
		})
	}
}
