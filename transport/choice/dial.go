package choice

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rds-go/rds/transport"
)

// grace is how long the preferred transport may take to answer when the other one just
// has: one SYN may be lost in it.
const grace = 1250 * time.Millisecond

// headStart is how much earlier the preferred transport is dialed than the other one,
// where neither has answered: on both the same SYNs are lost, and when the network is
// back it is the first to get through.
const headStart = 300 * time.Millisecond

// Dial connects by the transport that serves the pair, or finds out which one does.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	k := pairOf(local, remote)
	known, forced := t.look(k)
	d := dial{t: t, pair: k, path: path, known: known}
	switch {
	case forced != nil:
		l, err := d.by(ctx, forced)
		if err == nil {
			return d.take(l, forced, "configured")
		}
		return nil, err
	case !k.dials():
		return d.knock(ctx, known.serves)
	case known.target != nil && known.target != known.serves:
		l, err := d.within(ctx, t.opts.Patience, known.target)
		if err == nil {
			return d.take(l, known.target, known.why)
		}
		t.stays(k, known.target, err)
		if ended := ctx.Err(); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
	if known.serves == t.opts.Other {
		return d.other(ctx)
	}
	return d.preferred(ctx)
}

// dial is one call of Dial.
type dial struct {
	t *Transport
	pair
	path  int
	known state // the pair's state when the call began
}

func (d *dial) by(ctx context.Context, tr transport.Transport) (transport.Link, error) {
	return tr.Dial(ctx, d.local, d.remote, d.path)
}

// within is by for a time.
func (d *dial) within(ctx context.Context, limit time.Duration, tr transport.Transport) (transport.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.by(ctx, tr)
}

// take gives a link to the caller of Dial, if its transport may serve the pair, still.
func (d *dial) take(l transport.Link, tr transport.Transport, reason string) (transport.Link, error) {
	if d.t.choose(d.pair, tr, reason, &d.known) {
		return l, nil
	}
	l.Close(transport.Abort)
	return nil, ErrForced
}

// knock connects to a peer that is the side that dials. The link is only to tell it so,
// and settles nothing.
func (d *dial) knock(ctx context.Context, serves transport.Transport) (transport.Link, error) {
	t := d.t
	first, second := t.opts.Preferred, t.opts.Other
	if serves == second {
		first, second = second, first
	}
	l, err := d.within(ctx, t.opts.Patience, first)
	if err == nil || ctx.Err() != nil {
		return l, err
	}
	l, other := d.by(ctx, second)
	if other == nil {
		return l, nil
	}
	return nil, errors.Join(err, other)
}

// other connects to a peer that the other transport serves. The preferred one is dialed
// only if the peer has gone: while there are links, a dial of it would end them.
func (d *dial) other(ctx context.Context) (transport.Link, error) {
	t := d.t
	t.askSoon(d.pair)
	l, err := d.by(ctx, t.opts.Other)
	if err == nil {
		return d.take(l, t.opts.Other, d.known.reason)
	}
	if ended := ctx.Err(); ended != nil {
		return nil, errors.Join(ended, err)
	}
	if !t.absent(err) || !t.mayMove(&d.known) {
		return nil, err
	}
	l, better := d.by(ctx, t.opts.Preferred)
	if better == nil {
		return d.take(l, t.opts.Preferred, t.opts.Other.Name()+" is refused")
	}
	if t.absent(better) {
		t.gone(d.pair)
	}
	return nil, errors.Join(err, better)
}

// preferred connects to a peer that the preferred transport serves, or of which nothing
// is known. When it has not answered for Patience, in this call and others, both are
// dialed.
func (d *dial) preferred(ctx context.Context) (transport.Link, error) {
	t, known := d.t, &d.known
	since := t.failing(d.pair)
	patience := t.opts.Patience - time.Since(since)
	if patience <= 0 && known.serves != nil && (known.hung || !t.mayMove(known)) {
		patience = t.opts.Patience
	}
	var refused error
	if patience > 0 {
		l, err := d.within(ctx, patience, t.opts.Preferred)
		if err == nil {
			if l, err = d.take(l, t.opts.Preferred, "it answers"); err != ErrForced {
				return l, err
			}
		}
		if ended := ctx.Err(); ended != nil {
			return nil, errors.Join(ended, err)
		}
		hung := t.hangs(d.pair, err)
		now, forced := t.look(d.pair) // another dial may have found out what serves the peer
		switch {
		case now.serves != known.serves || forced != nil:
			if forced == nil && now.serves == t.opts.Preferred {
				return nil, err
			}
			return t.Dial(ctx, d.local, d.remote, d.path)
		case known.serves != nil && !t.opts.Absent(err) && time.Since(since) < t.opts.Patience:
			return nil, err // the peer's program may be just starting again
		case known.serves != nil && (hung || !t.mayMove(known)):
			return nil, err
		}
		refused = err
	}
	return d.both(ctx, since, refused)
}

// attempt is a dial under way.
type attempt struct {
	cancel context.CancelFunc
	result chan attempted
}

type attempted struct {
	l   transport.Link
	err error
}

// start dials by tr after a delay.
func (d *dial) start(ctx context.Context, tr transport.Transport, delay time.Duration) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{cancel, make(chan attempted, 1)}
	go func() {
		later := time.NewTimer(delay)
		defer later.Stop()
		select {
		case <-later.C:
			l, err := d.by(ctx, tr)
			a.result <- attempted{l, err}
		case <-ctx.Done():
			a.result <- attempted{nil, ctx.Err()}
		}
	}()
	return a
}

// stop ends an attempt that is no longer wanted, unless it has ended.
func (a *attempt) stop() (l transport.Link) {
	a.cancel()
	return (<-a.result).l
}

// both dials both transports: the preferred one serves if it answers, even a moment
// after the other one. refused is what its dial in this call has ended with, nil if
// there was none.
//
// A peer listens by the preferred transport first. One that answers by the other is
// therefore asked once more by the preferred: it may be just starting, or its network
// just back.
func (d *dial) both(ctx context.Context, since time.Time, refused error) (transport.Link, error) {
	t := d.t
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var better *attempt
	var betterDone <-chan attempted
	delay := time.Duration(0)
	if refused == nil || silentFor(refused) {
		better = d.start(ctx, t.opts.Preferred, 0)
		betterDone = better.result
		delay = headStart
	}
	other := d.start(ctx, t.opts.Other, delay)
	otherDone := (<-chan attempted)(other.result)
	var failed error // error of the dial of Options.Other
	for {
		select {
		case r := <-betterDone:
			betterDone, better = nil, nil
			if r.err == nil {
				if otherDone != nil {
					discard(other.stop())
				}
				return d.take(r.l, t.opts.Preferred, "it answers")
			}
			if refused = r.err; otherDone == nil {
				return nil, errors.Join(refused, failed)
			}
		case r := <-otherDone:
			otherDone = nil
			if r.err != nil {
				if failed = r.err; better == nil {
					return nil, errors.Join(refused, failed)
				}
				continue
			}
			if better != nil {
				if l := better.stop(); l != nil {
					discard(r.l)
					return d.take(l, t.opts.Preferred, "it answers")
				}
			}
			if !t.opts.Absent(refused) {
				if l, err := d.within(ctx, min(grace, t.opts.Patience), t.opts.Preferred); err == nil {
					discard(r.l)
					return d.take(l, t.opts.Preferred, "it answers")
				} else if d.known.serves != nil && t.hangs(d.pair, err) {
					discard(r.l)
					return nil, err
				} else if refused == nil || !silentFor(err) {
					refused = err
				}
			}
			return d.take(r.l, t.opts.Other, t.why(refused, since))
		}
	}
}

func discard(l transport.Link) {
	if l != nil {
		l.Close(transport.Abort)
	}
}
