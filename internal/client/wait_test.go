package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
)

// The number of those who wait, which wakers look at first, is right whenever the list
// is. It once grew a moment later: who was woken before his own was counted took away
// another's, who was then not there for wakers.
func TestWaitersAreCountedAsTheyAreListed(t *testing.T) {
	t.Parallel()
	var (
		q    socket.WaitQueue
		wg   sync.WaitGroup
		stop atomic.Bool
	)
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				q.Done(q.Add())
			}
		})
	}
	for range 500_000 {
		q.Mu.Lock()
		listed := int32(0)
		for w := q.Head; w != nil; w = w.Next {
			listed++
		}
		counted := q.N.Load()
		q.Mu.Unlock()
		if counted != listed {
			t.Errorf("%d waiters are counted, and %d are there", counted, listed)
			break
		}
		q.Wake(1)
	}
	stop.Store(true)
	wg.Wait()
}

// ending is a context that ends while nobody waits for it to.
type ending struct {
	context.Context
	err atomic.Pointer[error]
}

func (c *ending) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// A sender that gives up when it has just been told of room passes that on.
func TestSenderThatGivesUpLeavesTheRoomToOthers(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, path := serving(t, l.node(config.Node{}), config.Service{})
	s := halfOf(l.bind(l.node(config.Node{})))
	p, err := s.PeerFor(rdstest.NewAddr())
	if err != nil {
		t.Fatal(err)
	}
	p.Down.Store(false) // as if it were up: it may have all of the buffer
	app := clientHalfOf(bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100)))
	h := app.Half.Load()
	d := &destination{h.T, app.addr.Addr(), ipc.MaxPeers - 1} // up, as far as the table says
	for _, c := range []struct {
		name    string
		waiters *socket.WaitQueue
		account *conn.Account
		charge  func(context.Context) error
	}{
		{"node", &s.Writers, &s.Account, func(ctx context.Context) error { return s.Charge(ctx, s.Share(p), 1, 1000, true) }},
		{"application", &app.writers, &h.Account, func(ctx context.Context) error { return app.charge(ctx, h, d, 1, 1000, true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			free := func() { c.account.Refund(c.account.Bytes(), c.account.Messages()) }
			defer free()
			for c.account.Charge(1000) {
			}
			first := &ending{Context: context.Background()}
			gone, sent := make(chan error, 1), make(chan error, 1)
			go func() { gone <- c.charge(first) }()
			rdstest.Eventually(t, "the first sender", func() bool { return c.waiters.N.Load() == 1 })
			go func() { sent <- c.charge(rdstest.Background(t)) }()
			rdstest.Eventually(t, "the second sender", func() bool { return c.waiters.N.Load() == 2 })
			first.err.Store(&context.Canceled)
			free()
			c.waiters.Wake(1)
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("the first sender: %v", err)
			}
			if err := <-sent; err != nil {
				t.Errorf("the second sender: %v", err)
			}
		})
	}
}
