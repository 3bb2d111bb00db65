package rdstest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/socket"
)

// GoesOn sends from s to sockets that receive, from two goroutines for each, more than limit
// bytes, which is the send buffer of s.
func GoesOn(t *testing.T, limit int, s Socket, to ...Socket) {
	t.Helper()
	const messages, senders = 300, 2
	var wg sync.WaitGroup
	for _, d := range to {
		for i := range senders {
			wg.Go(func() {
				b := make([]byte, limit/messages)
				for k := range messages {
					binary.BigEndian.PutUint32(b, uint32(i<<16|k))
					if err := s.Send(Background(t), d.LocalAddrPort(), b); err != nil {
						t.Errorf("message %d to %v: %v", k, d.LocalAddrPort(), err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			var next [senders]uint32
			for range senders * messages {
				m, err := d.Recv(Background(t))
				if err != nil {
					t.Errorf("at %v, after %v: %v", d.LocalAddrPort(), next, err)
					return
				}
				n := binary.BigEndian.Uint32(m.Data)
				if i := n >> 16; n&0xffff != next[i] {
					t.Errorf("PROMISE: message %d instead of %d", n&0xffff, next[i])
				} else {
					next[i]++
				}
				m.Release()
			}
		})
	}
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

// GivingUp has two senders wait for room in an account by charge, which takes 1000 bytes of
// it. The first one gives up when it has just been told of room: the second one has to get it.
func GivingUp(t *testing.T, waiters *socket.WaitQueue, account *conn.Account, charge func(context.Context) error) {
	t.Helper()
	free := func() { account.Refund(account.Bytes(), account.Messages()) }
	defer free()
	for account.Charge(1000) {
	}
	first := &ending{Context: context.Background()}
	gone, sent := make(chan error, 1), make(chan error, 1)
	go func() { gone <- charge(first) }()
	Eventually(t, "the first sender", func() bool { return waiters.N.Load() == 1 })
	go func() { sent <- charge(Background(t)) }()
	Eventually(t, "the second sender", func() bool { return waiters.N.Load() == 2 })
	first.err.Store(&context.Canceled)
	free()
	waiters.Wake(1)
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the first sender: %v", err)
	}
	if err := <-sent; err != nil {
		t.Errorf("the second sender: %v", err)
	}
}
