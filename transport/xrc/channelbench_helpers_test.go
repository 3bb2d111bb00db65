package xrc

import (
	"runtime"
	"testing"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// bench is a stream of messages of one size from one process to another.
type bench struct {
	client, server *app
	ch             *Channel
	srq            *objects.SRQ
	m, src         *iwarp.MR
	size           int
	sends, takes   [64]iwarp.Completion
}

func newBench(t testing.TB, size int) *bench {
	_, a, b := twoHosts(t, hostOptions{fabric: Options{CRC: CRCOff}})
	x := &bench{client: a.app(""), server: b.app(""), size: size}
	x.srq, x.m = x.server.serve(7, 512, size)
	x.ch = x.client.connect(2, 7)
	x.src = x.client.region(size, 0)
	return x
}

// run keeps up to window messages under way.
func (x *bench) run(t testing.TB, n, window int) {
	w := iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: x.ch.Queue().SRQN, SGE: []iwarp.SGE{x.src.SGE(0, x.size)}}
	piece := make([]iwarp.SGE, 1)
	again := []iwarp.ReceiveRequest{{SGE: piece}}
	for sent, done, taken := 0, 0, 0; done < n || taken < n; {
		idle := true
		for sent < n && sent-done < window {
			if _, err := x.ch.PostSend(w); err != nil {
				t.Fatal(err)
			}
			sent++
			idle = false
		}
		k := x.server.cq.Poll(x.takes[:])
		for _, c := range x.takes[:k] {
			piece[0] = x.m.SGE(int(c.ID)*x.size, x.size)
			again[0].ID = c.ID
			if _, err := x.srq.PostReceive(again...); err != nil {
				t.Fatal(err)
			}
		}
		taken += k
		j := x.client.cq.Poll(x.sends[:])
		for i := range x.sends[:j] {
			if x.sends[i].Status != iwarp.Success {
				t.Fatalf("%+v", x.sends[i])
			}
		}
		done += j
		if idle && j+k == 0 {
			runtime.Gosched()
		}
	}
}
