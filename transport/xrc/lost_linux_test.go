//go:build !live

package xrc

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
)

// An operation that is lost with its link is not reported as done: the word counts every
// addition that has succeeded, and no more than those and the ones that were lost.
func TestLostOperationsAreNotReportedAsDone(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		e := newEnv(t, Options{Config: iwarp.Config{EventLoops: 1}}, Options{Config: iwarp.Config{EventLoops: 1}})
		accepted := e.Accepted(t)
		key := expose(t, e.B.(*Transport), make([]byte, 8))
		succeeded, lost := uint64(0), uint64(0)
		tick := time.NewTicker(lan.Latency / 10)
		defer tick.Stop()
		for round := range 60 {
			la, lb := e.Dial(t, accepted)
			ha, hb := transporttest.NewHearer(16), transporttest.NewHearer(16)
			must(t, errors.Join(la.Start(ha), lb.Start(hb)))
			var ends [transport.OpFailed + 1]atomic.Uint64
			begun := uint64(0)
			for range 40 {
				op := &transport.Operation{Kind: transport.OpFetchAdd, Local: [][]byte{make([]byte, 8)}, Key: key, Add: 1}
				op.Done = func(_ *transport.Operation, s transport.OpStatus) { ends[s].Add(1) }
				if n, err := la.Send([]transport.Frame{{Ops: []*transport.Operation{op}}}); err == nil && n.Frames == 1 {
					begun++
				}
				<-tick.C
			}
			[]transport.Link{la, lb}[round%2].Close(transport.Abort)
			<-ha.Over
			<-hb.Over
			done, gone := ends[transport.OpSuccess].Load(), ends[transport.OpLost].Load()
			if done+gone != begun {
				t.Errorf("round %d: %d operations were begun, %d were done and %d lost", round, begun, done, gone)
			}
			succeeded, lost = succeeded+done, lost+gone
		}
		if succeeded == 0 || lost == 0 {
			t.Errorf("%d operations succeeded, and %d were lost", succeeded, lost)
		}
		la, lb := e.Dial(t, accepted)
		ha, hb := transporttest.NewHearer(16), transporttest.NewHearer(16)
		must(t, errors.Join(la.Start(ha), lb.Start(hb)))
		word, over := make([]byte, 8), make(chan transport.OpStatus, 1)
		op := &transport.Operation{Kind: transport.OpFetchAdd, Local: [][]byte{word}, Key: key}
		op.Done = func(_ *transport.Operation, s transport.OpStatus) { over <- s }
		must(t, errOf(la.Send([]transport.Frame{{Ops: []*transport.Operation{op}}})))
		if s := <-over; s != transport.OpSuccess {
			t.Fatal(s)
		}
		if n := binary.NativeEndian.Uint64(word); n < succeeded || n > succeeded+lost {
			t.Errorf("%d additions have happened; %d have succeeded and %d were lost", n, succeeded, lost)
		}
		la.Close(transport.Abort)
		lb.Close(transport.Abort)
	})
}
