package rds

import (
	"context"
	"time"
)

// Applications tell rdsd time limits by the time of day: monotonic clocks start where each
// process does, and containers may have their own. rdsd turns it into its own monotonic
// time when it takes the submission, so that a clock that is set matters in between only.

// longest bounds the time limits that applications tell rdsd: more does not fit.
const longest = 100 * 365 * 24 * time.Hour

// told is a time limit as an application tells it: in nanoseconds since 1970.
func told(limit time.Time) int64 {
	return time.Now().Add(min(time.Until(limit), longest)).UnixNano()
}

// heard is a time limit as rdsd hears it.
func heard(nanoseconds int64) time.Time {
	return time.Now().Add(time.Until(time.Unix(0, nanoseconds)))
}

// about tells whether a submission says more of the message than its payload.
func (o *Outgoing) about() bool { return o.special() || !o.Expires.IsZero() }

// sendWithin is send that waits no longer than the message may.
func sendWithin(ctx context.Context, ep endpoint, o *Outgoing, block bool) error {
	if block && !o.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.Expires)
		defer cancel()
	}
	return ep.send(ctx, o, block)
}
