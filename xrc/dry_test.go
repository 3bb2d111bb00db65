//go:build live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// A process ends while its messages wait for receives of a queue. Those of another process of its host, by the same
// connection, are delivered.
func TestEndWithMessagesThatWaitStopsNobody(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		a := newProcess(t, far, nil, 1, 8)
		a.advertise(t, 7)
		p := newProcess(t, near, nil, 1, 128)
		i := p.connect(t, far.addr, 7)
		send := func(i *Initiator, text string) {
			t.Helper()
			if _, err := i.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: a.srq.Num(), Inline: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		send(i, "stays")
		a.poll(t)
		p.poll(t) // the queue is empty now
		for range 5 {
			q := newProcess(t, near, nil, 1, 128)
			j := q.connect(t, far.addr, 7)
			send(j, "leaves")
			rdstest.Eventually(t, "the message to be taken", func() bool { n, err := j.ring.Ready(j.ring.Len()); return err == nil && n == j.ring.Len() })
			must(t, q.Close())
			send(i, "stays")
			for text := ""; text != "stays"; { // the other's message may have come before it was taken back
				a.receive(t, 0)
				text = string(a.mem.Bytes()[:a.poll(t).Len])
			}
			if c := p.poll(t); c.Status != iwarp.Success {
				t.Fatalf("%+v", c)
			}
		}
	})
}
