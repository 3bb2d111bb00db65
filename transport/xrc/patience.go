package xrc

import (
	"time"

	"github.com/rds-go/rds/xrc/objects"
)

// patience watches a channel that has requests under way, for as long as it has. TCP gives
// order and repeats what is lost, so there is one thing to find out: whether the peer is silent.
// Half of a time-out after its last sign of life it is asked for one, by a PING.
type patience struct {
	ch    *Channel
	signs uint64    // Channel.signs at since
	since time.Time // when the last sign of life was noticed
	asked bool      // the peer was asked since
}

// watch has maintain watch a channel.
func (t *Transport) watch(ch *Channel) {
	t.mu.Lock()
	t.watches = append(t.watches, &patience{ch: ch})
	t.mu.Unlock()
	t.wake()
}

// watchAll looks at all channels with requests under way, and returns when to look again; the
// zero time if nothing is to be looked at.
func (t *Transport) watchAll(now time.Time) (next time.Time) {
	t.mu.Lock()
	list := t.watches
	t.watches = nil
	t.mu.Unlock()
	var kept []*patience
	for _, w := range list {
		at := w.look(now)
		if at.IsZero() {
			continue
		}
		kept = append(kept, w)
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	t.mu.Lock()
	t.watches = append(kept, t.watches...)
	t.mu.Unlock()
	return next
}

// look ends a channel whose peer is silent for too long. It returns when to look again, the
// zero time if the channel is not watched any more.
func (w *patience) look(now time.Time) (next time.Time) {
	ch := w.ch
	ch.mu.Lock()
	timeout := time.Duration(4096) << ch.attrs.Timeout
	limit := timeout * time.Duration(ch.attrs.RetryCount+1)
	if ch.state != channelReady || ch.started == 0 || ch.attrs.Timeout == 0 {
		ch.watched = false
		ch.mu.Unlock()
		return next
	}
	if w.since.IsZero() || w.signs != ch.signs {
		w.signs, w.since, w.asked = ch.signs, now, false
	}
	m := ch.mux
	ch.mu.Unlock()
	quiet := now.Sub(w.since)
	if quiet >= limit {
		ch.ini.Fail(objects.EventLastWQE, objects.ErrRetry)
		return next
	}
	if quiet >= timeout/2 && !w.asked {
		w.asked = true
		ch.t.work.Go(func() { ch.ping(m) })
	}
	if w.asked {
		return w.since.Add(limit)
	}
	return w.since.Add(timeout / 2)
}

// ping asks the peer for a sign of life.
func (ch *Channel) ping(m *mux) {
	if m.l.qp.Ping(ch.t.ctx) != nil {
		return
	}
	ch.mu.Lock()
	ch.signs++
	ch.mu.Unlock()
	ch.t.wake()
}
