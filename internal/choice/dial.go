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
func (p *Policy) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	k := pairOf(local, remote)
	known := p.look(k)
	d := dial{Policy: p, pair: k, path: path, known: known}
	switch {
	case known.forced: // for good, so that there is nothing to note
		return d.by(ctx, known.serves)
	case !k.dials():
		return d.knock(ctx)
	case known.target != nil && known.target != known.serves:
		l, err := d.within(ctx, p.opts.Patience, known.target)
		if err == nil {
			return d.take(l, known.target, known.why)
		}
		p.stays(k, known.target, err)
		if ended := ctx.Err(); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
	if known.serves == p.other {
		return d.byOther(ctx)
	}
	return d.byPreferred(ctx)
}

// dial is one call of Dial.
type dial struct {
	*Policy
	pair
	path  int
	known state // the pair's state when the call began
}

func (d *dial) by(ctx context.Context, w *Wire) (transport.Link, error) {
	return w.Dial(ctx, d.local, d.remote, d.path)
}

// within is by for a time.
func (d *dial) within(ctx context.Context, limit time.Duration, w *Wire) (transport.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.by(ctx, w)
}

// take gives a link to the caller of Dial. errForced: its transport may not serve the pair
// any more.
func (d *dial) take(l transport.Link, w *Wire, reason string) (transport.Link, error) {
	if !d.choose(d.pair, w, reason, &d.known) {
		discard(l)
		return nil, errForced
	}
	return l, nil
}

func discard(l transport.Link) {
	if l != nil {
		l.Close(transport.Abort)
	}
}

// knock connects to a peer that is the side that dials. The link is only to tell it so,
// and settles nothing.
func (d *dial) knock(ctx context.Context) (transport.Link, error) {
	first, second := d.preferred, d.other
	if d.known.serves == second {
		first, second = second, first
	}
	l, err := d.within(ctx, d.opts.Patience, first)
	if err == nil || ctx.Err() != nil {
		return l, err
	}
	l, other := d.by(ctx, second)
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return l, nil
}

// byOther connects to a peer that the other transport serves. The preferred one is dialed
// only if the peer has gone: while there are links, a dial of it would end them.
func (d *dial) byOther(ctx context.Context) (transport.Link, error) {
	d.begin(d.pair, true)
	l, err := d.by(ctx, d.other)
	if err == nil {
		return d.take(l, d.other, d.known.reason)
	}
	if ctx.Err() != nil || !d.absent(err) || !d.mayMove(&d.known) {
		return nil, errors.Join(ctx.Err(), err)
	}
	l, better := d.by(ctx, d.preferred)
	if better == nil {
		return d.take(l, d.preferred, d.other.Name+" is refused")
	}
	if d.absent(better) {
		d.gone(d.pair)
	}
	return nil, errors.Join(err, better)
}

// byPreferred connects to a peer that the preferred transport serves, or of which nothing
// is known. When it has not answered for Patience, in this call and others, both are
// dialed.
func (d *dial) byPreferred(ctx context.Context) (transport.Link, error) {
	known := &d.known
	since := d.failing(d.pair)
	patience := d.opts.Patience - time.Since(since)
	if patience <= 0 && known.serves != nil && (known.hung || !d.mayMove(known)) {
		patience = d.opts.Patience
	}
	if patience <= 0 {
		return d.both(ctx, since, nil)
	}
	l, err := d.within(ctx, patience, d.preferred)
	if err == nil {
		if l, err = d.take(l, d.preferred, "it answers"); err == nil {
			return l, nil
		}
	}
	if ended := ctx.Err(); ended != nil {
		return nil, errors.Join(ended, err)
	}
	hung := d.hangs(d.pair, err)
	now := d.look(d.pair) // another dial may have found out what serves the peer
	switch {
	case !now.forced && now.serves != known.serves && now.serves == d.preferred:
		return nil, err
	case now.forced || now.serves != known.serves:
		return d.Dial(ctx, d.local, d.remote, d.path)
	case known.serves != nil && !d.opts.Absent(err) && time.Since(since) < d.opts.Patience:
		return nil, err // the peer's program may be just starting again
	case known.serves != nil && (hung || !d.mayMove(known)):
		return nil, err
	}
	return d.both(ctx, since, err)
}

// both dials both transports: the preferred one serves if it answers, even a moment
// after the other one. refused is what its dial in this call has ended with, nil if
// there was none.
//
// A peer listens by the preferred transport first. One that answers by the other is
// therefore dialed once more by the preferred: it may be just starting, or its network
// just back.
func (d *dial) both(ctx context.Context, since time.Time, refused error) (transport.Link, error) {
	better, other := attempt{err: refused}, attempt{}
	if refused == nil || silentFor(refused) {
		better, other = d.race(ctx, refused)
	} else {
		other.l, other.err = d.by(ctx, d.other)
	}
	if better.l != nil {
		discard(other.l)
		return d.take(better.l, d.preferred, "it answers")
	}
	refused = better.err
	if other.err != nil {
		return nil, errors.Join(refused, other.err)
	}
	if !d.opts.Absent(refused) {
		again, err := d.within(ctx, min(grace, d.opts.Patience), d.preferred)
		switch {
		case err == nil:
			discard(other.l)
			return d.take(again, d.preferred, "it answers")
		case d.known.serves != nil && d.hangs(d.pair, err):
			discard(other.l)
			return nil, err
		case refused == nil || !silentFor(err):
			refused = err
		}
	}
	return d.take(other.l, d.other, d.why(refused, since))
}

// attempt is what a dial has ended with.
type attempt struct {
	l   transport.Link
	err error
}

// race dials both transports until one of them has a link. Both may have one in the end. The
// error of the preferred one is refused where the other one's link has cut its dial short.
func (d *dial) race(ctx context.Context, refused error) (better, other attempt) {
	first, cutFirst := context.WithCancel(ctx)
	second, cutSecond := context.WithCancel(ctx)
	defer cutFirst()
	defer cutSecond()
	done := make(chan attempt, 1)
	go func() {
		l, err := d.by(first, d.preferred)
		if err == nil {
			cutSecond()
		}
		done <- attempt{l, err}
	}()
	select {
	case <-time.After(headStart):
		other.l, other.err = d.by(second, d.other)
	case <-second.Done():
		other.err = second.Err()
	}
	if other.err != nil {
		return <-done, other
	}
	select {
	case better = <-done:
	default:
		cutFirst()
		if better = <-done; better.l == nil {
			better.err = refused
		}
	}
	return better, other
}
