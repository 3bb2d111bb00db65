package xrc

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// deaf is a handler that waits for nothing but the end.
type deaf struct {
	transporttest.Simple
	ended sync.WaitGroup
}

func (*deaf) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
}
func (d *deaf) Closed(error, uint64) { d.ended.Done() }

// The peer aborts at any moment while we write, and perhaps drain: the end is told in
// any case. Once it was not when the queue pair failed during the write that met the
// reset.
func TestEndIsToldWhileWriting(t *testing.T) {
	a, b := newTransport(t, Options{}), newTransport(t, Options{})
	from, to := newAddr(), newAddr()
	abort := func(l transport.Link) {
		time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, func() { l.Close(transport.Abort) })
	}
	if err := b.Listen(to, abort); err != nil {
		t.Fatal(err)
	}
	var (
		d       deaf
		writers sync.WaitGroup
	)
	for range 1000 {
		ctx, cancel := context.WithTimeout(context.Background(), transporttest.Patience)
		l, err := a.Dial(ctx, from, to, 0)
		cancel()
		if err != nil {
			continue // it was early
		}
		d.ended.Add(1)
		if err := l.Start(&d); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			for range 5 {
				if _, err := l.Send([]transport.Frame{(&transporttest.Sender{}).Next(8192)}); err != nil {
					break
				}
			}
			if rand.IntN(2) == 0 {
				l.Close(transport.Drain)
			}
		})
	}
	writers.Wait()
	all := make(chan struct{})
	go func() {
		d.ended.Wait()
		close(all)
	}()
	late := time.NewTimer(transporttest.Patience) // a thousand dials may have taken longer
	defer late.Stop()
	select {
	case <-all:
	case <-late.C:
		a.mu.Lock()
		n := len(a.links)
		a.mu.Unlock()
		t.Fatalf("%d links have not ended", n)
	}
}
