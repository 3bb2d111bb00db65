//go:build !live

package node

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// Links that wait for one socket are woken in the order in which they began to wait, as
// many as it has room for.
func TestWaitersAreServedInTurn(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := newSocket(&Node{Config: config.Node{ReceiveOverrun: 8000}}, new(Local))
		var woken []int
		now := time.Now()
		rs := make([]*sink, 5)
		for i := range rs {
			rs[i] = new(sink)
			p := &rs[i].wait
			p.sock, p.need, p.since = s, 1000, now.Add(time.Duration(i)*time.Second)
			p.parked = func() int64 { return 2000 }
			p.wake = func() { woken = append(woken, i) }
		}
		for _, i := range []int{3, 0, 4, 1, 2} {
			s.At.waiters.add(rs[i])
		}
		s.At.waiters.add(&sink{wait: roomWait{sock: new(Socket), since: now}}) // for another one
		s.Queue.Count.Store(8)
		s.Queue.Bytes.Store(8000 - 900)
		s.Spare()
		if len(woken) != 0 {
			t.Fatalf("%v were woken for 900 bytes of room", woken)
		}
		s.Queue.Bytes.Store(8000 - 3000)
		s.Spare()
		if !slices.Equal(woken, []int{0, 1}) {
			t.Fatalf("%v were woken for 3000 bytes of room", woken)
		}
		s.At.waiters.add(rs[0]) // it found no room after all
		s.Queue.Bytes.Store(8000 - 1000)
		s.Spare()
		if !slices.Equal(woken, []int{0, 1, 0}) {
			t.Fatalf("%v were woken", woken)
		}
		s.At.waiters.remove(rs[2])
		s.At.waiters.remove(rs[2])
		s.At.waiters.ended(s)
		if !slices.Equal(woken, []int{0, 1, 0, 3, 4}) || s.awaited.Load() != 0 || len(s.At.waiters.list) != 1 {
			t.Fatalf("%v were woken, %d wait", woken, s.awaited.Load())
		}
	})
}
