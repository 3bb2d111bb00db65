//go:build !live

package gnetloop

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// host answers SYNs of fake attempts from the time up on, as a kernel before Linux 6.5
// sends them.
type host struct {
	up   time.Time
	err  error         // what it answers
	rtt  time.Duration // how long that takes
	open atomic.Int32  // attempts under way, or that have got a connection
}

func (h *host) dial(ctx context.Context) (*host, error) {
	h.open.Add(1)
	began := time.Now()
	for _, at := range []time.Duration{0, 1, 3, 7, 15, 31} {
		syn := time.NewTimer(time.Until(began.Add(at * time.Second)))
		select {
		case <-syn.C:
			if !time.Now().Before(h.up) {
				answer := time.NewTimer(h.rtt)
				select {
				case <-answer.C:
					if h.err != nil {
						h.open.Add(-1)
					}
					return h, h.err
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	h.open.Add(-1)
	return nil, ctx.Err()
}

func drop(h *host) { h.open.Add(-1) }

// However long SYNs were lost, the connection is there, or the refusal, within a second
// of the first one that could arrive.
func TestInsistingDialIsThereSoon(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{nil, syscall.ECONNREFUSED} {
		for outage := time.Duration(0); outage < 14*time.Second; outage += 90 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				h := &host{up: time.Now().Add(outage), err: refusal, rtt: time.Millisecond}
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				_, err := insist(ctx, h.dial, drop)
				if !errors.Is(err, refusal) {
					t.Errorf("outage of %v: %v", outage, err)
				}
				if d := time.Since(h.up); d > time.Second {
					t.Errorf("outage of %v: %v later", outage, d)
				}
				want := int32(1)
				if refusal != nil {
					want = 0
				}
				if h.open.Load() != want {
					t.Errorf("outage of %v: %d attempts are left", outage, h.open.Load())
				}
			})
		}
	}
}

// A path whose round trip takes longer than a fresh attempt may is a matter of the
// first one.
func TestInsistingDialWaitsForSlowPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{up: time.Now(), rtt: 5 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		began := time.Now()
		if c, err := insist(ctx, h.dial, drop); c != h || err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v, %v after %v", c, err, time.Since(began))
		}
		if h.open.Load() != 1 {
			t.Errorf("%d attempts are left", h.open.Load())
		}
	})
}

// An attempt ends with its context, in its way.
func TestInsistingDialEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{up: time.Now().Add(time.Hour)}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := insist(ctx, h.dial, drop); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		if _, err := insist(ctx, h.dial, drop); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if h.open.Load() != 0 {
			t.Errorf("%d attempts are left", h.open.Load())
		}
	})
}
