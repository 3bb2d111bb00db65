package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
)

// errTimeout: the peer did not do its part within --timeout.
var errTimeout = errors.New("the peer takes too long (--timeout)")

// errInterrupted: a signal has ended the command.
var errInterrupted = errors.New("interrupted")

// endpoint is a queue pair with the one completion queue of its both queues.
// One goroutine uses it.
type endpoint struct {
	cq *iwarp.CQ
	qp *iwarp.QP
}

// newEndpoint makes a queue pair of so many requests in each queue.
func newEndpoint(dev *iwarp.Device, pd *iwarp.PD, sends, receives int) (*endpoint, error) {
	cq, err := dev.CreateCQ(2*sends + receives) // sends are rounded up to a power of two
	if err != nil {
		return nil, err
	}
	qp, err := pd.CreateQP(iwarp.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: sends, MaxReceive: receives})
	if err != nil {
		return nil, errors.Join(err, cq.Close())
	}
	return &endpoint{cq: cq, qp: qp}, nil
}

// close destroys it; a connection that still is there is reset.
func (e *endpoint) close() {
	_ = e.qp.Close()
	_ = e.cq.Close()
}

// next waits for a completion.
func (e *endpoint) next(ctx context.Context) (iwarp.Completion, error) {
	var c [1]iwarp.Completion
	for e.cq.Poll(c[:]) == 0 {
		if err := e.cq.Wait(ctx); err != nil {
			return c[0], reason(ctx, err)
		}
	}
	return c[0], nil
}

// want waits for a completion of op and tells what went wrong if it is another
// or a failed one.
func (e *endpoint) want(ctx context.Context, op iwarp.Op) (iwarp.Completion, error) {
	c, err := e.next(ctx)
	switch {
	case err != nil:
	case c.Status == iwarp.Flushed:
		err = e.qp.Err()
	case c.Status != iwarp.Success:
		err = fmt.Errorf("%v: %w", c.Status, e.qp.Err())
	case c.Op != op:
		err = fmt.Errorf("unexpected completion of a %v", c.Op)
	}
	return c, err
}

// disconnect ends the connection when all that was posted is sent, and waits
// for the peer to end its side.
func (e *endpoint) disconnect(ctx context.Context) error {
	if err := e.qp.Disconnect(); err != nil {
		return e.qp.Err() // the connection has ended already
	}
	if err := e.qp.Wait(ctx); !errors.Is(err, iwarp.ErrClosed) {
		return reason(ctx, err)
	}
	return nil
}

// reason says what the end of a context meant.
func reason(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case errors.Is(context.Cause(ctx), errTimeout):
		return errTimeout
	}
	return errInterrupted
}
