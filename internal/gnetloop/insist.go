package gnetloop

import (
	"context"
	"errors"
	"time"

	"github.com/rds-go/rds/transport"
)

// freshAfter is how long an attempt to connect may take before a fresh one is made
// beside it, and how long that one may take before the next. It is no divisor of the
// seconds after which the kernel repeats a SYN, so that the two do not meet.
const freshAfter = 730 * time.Millisecond

// Insist connects by dial, again and again until ctx ends or there is an answer: a
// connection or an error. The first attempt has all the time that ctx has, for a path
// that is slow. The kernel repeats its SYN after 1, 3 and 7 s (on newer kernels after
// each of 5 s, then after 7 and 11), so where SYNs are lost a fresh attempt is made
// beside it every 0.73 s: the connection is there within a second of the network's
// being so. With a context of Once there is the first attempt alone.
func Insist[C interface{ Close(transport.CloseMode) }](ctx context.Context, dial func(context.Context) (C, error)) (C, error) {
	if ctx.Value(once{}) != nil {
		return dial(ctx)
	}
	return insist(ctx, dial, func(c C) { c.Close(transport.Abort) })
}

// once is the key of Once.
type once struct{}

// Once is for Insist where very many peers are dialed.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, once{}, true) }

type outcome[T any] struct {
	conn T
	err  error
}

func insist[T any](ctx context.Context, dial func(context.Context) (T, error), drop func(T)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	later := make(chan outcome[T], 1)
	timer := time.AfterFunc(freshAfter, func() {
		later <- afresh(ctx, dial)
		cancel() // ends the first attempt
	})
	conn, err := dial(ctx)
	if timer.Stop() {
		return conn, err
	}
	cancel()
	switch fresh := <-later; {
	case err == nil && fresh.err == nil:
		drop(fresh.conn)
	case fresh.err == nil, err != nil && !gaveUp(fresh.err):
		return fresh.conn, fresh.err
	}
	return conn, err
}

// afresh makes one attempt after the other.
func afresh[T any](ctx context.Context, dial func(context.Context) (T, error)) outcome[T] {
	for {
		attempt, cancel := context.WithTimeout(ctx, freshAfter)
		conn, err := dial(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !gaveUp(err) {
			return outcome[T]{conn, err}
		}
	}
}

// gaveUp tells whether an attempt ended because of its context, and not by an answer.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
