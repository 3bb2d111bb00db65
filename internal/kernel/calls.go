package kernel

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"
)

// calls are the calls of one direction of a kernel socket. What may wait ends
// with its context because the descriptor's deadline is in the past as long as a
// call whose context has ended is under way; calls that suffer from that without
// being meant go on.
type calls struct {
	mu       sync.Mutex
	deadline time.Time // guarded by mu; the user's
	ended    int       // guarded by mu: calls under way whose contexts have ended
}

// setDeadline sets the user's deadline.
func (k *calls) setDeadline(set func(time.Time) error, t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.deadline = t; k.ended == 0 {
		_ = set(t)
	}
}

// bounded runs a call that may wait, so that the end of ctx ends it. set sets the
// deadline of the descriptor.
func (k *calls) bounded(ctx context.Context, set func(time.Time) error, call func() error) error {
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var over, counted bool // guarded by mu
		stop := context.AfterFunc(ctx, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if over {
				return
			}
			counted = true
			if k.ended++; k.ended == 1 {
				_ = set(time.Unix(1, 0))
			}
		})
		defer func() {
			stop()
			k.mu.Lock()
			defer k.mu.Unlock()
			if over = true; !counted {
				return
			}
			if k.ended--; k.ended == 0 {
				_ = set(k.deadline)
			}
		}()
	}
	for {
		err := call()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.mu.Lock()
		user := k.deadline
		k.mu.Unlock()
		if !user.IsZero() && !time.Now().Before(user) {
			return err
		}
		runtime.Gosched() // the call that is meant has not noticed yet
	}
}
