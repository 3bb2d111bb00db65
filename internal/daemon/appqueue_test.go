//go:build !live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/transport"
)

// hurried is a link whose peer's application is quick: while the link is told one thing
// the backlog goes.
type hurried struct {
	transport.Link
	drain func()
}

// toldQueue is a queue that notes what peers are told of it.
type toldQueue struct{ ready []bool }

func (q *toldQueue) SetReady(ready bool) { q.ready = append(q.ready, ready) }
func (*toldQueue) Close()                {}

func (l *hurried) Home(uint16, uint32) bool {
	l.drain()
	return true
}

// A backlog that goes just when peers are about to be told that the queue is not ready
// turns nothing, as far as who takes it away can see. Nobody would come to say that the
// queue is ready, for nothing more would come for it.
func TestQueueIsReadyWhenTheBacklogGoesMeanwhile(t *testing.T) {
	self, ear, err := ipc.NewBell()
	if err != nil {
		t.Fatal(err)
	}
	defer ear.Close()
	defer self.Close()
	x := &session{self: self, queue: appQueue{number: 2, limit: 100}}
	q, peers := &x.queue, new(toldQueue)
	q.queue = peers
	l := &hurried{drain: func() {}}
	q.misplaced(x, l, 4000)
	q.announce() // so that the link knows of the queue
	q.misplaced(x, l, 4001)
	q.add(x, 101)
	l.drain = func() { q.add(x, -101) }
	q.announce()
	if n := len(peers.ready); q.full.Load() || n > 0 && !peers.ready[n-1] {
		t.Errorf("not ready, with a backlog of %d; peers were told %v", q.backlog.Load(), peers.ready)
	}
}
