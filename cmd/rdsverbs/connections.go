package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp"
)

// maxConnections is how many connections a server has at a time. More are
// rejected.
const maxConnections = 1024

// connections are those of a server.
type connections struct {
	wg     sync.WaitGroup
	active atomic.Int32
	failed atomic.Int32
}

// serve has one called for each connection, numbered from 1, until ctx ends, most
// have come (0: any number) or ln is closed, and waits for their end. It returns
// why it has stopped accepting, nil if most have come.
func (c *connections) serve(ctx context.Context, ln *iwarp.Listener, most int, one func(context.Context, int, *iwarp.Incoming)) error {
	defer c.wg.Wait()
	for n := 1; most == 0 || n <= most; n++ {
		in, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		if c.active.Add(1) > maxConnections {
			c.active.Add(-1)
			_ = in.Reject(nil)
			continue
		}
		c.wg.Go(func() {
			defer c.active.Add(-1)
			one(ctx, n, in)
		})
	}
	return nil
}
