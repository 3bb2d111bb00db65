package xrc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// sortLocked brings what waits into the order of posting.
func (ch *Channel) sortLocked() {
	slices.SortFunc(ch.waiting.All(), func(a, b uint32) int { return cmp.Compare(ch.works[a].order, ch.works[b].order) })
}

// suspend is the end of a connection. All that was under way by it has been
// completed.
func (ch *Channel) suspend(m *mux, now time.Time) {
	ch.mu.Lock()
	if ch.state != channelReady || ch.mux != m {
		ch.mu.Unlock()
		return
	}
	ch.state, ch.mux = channelSuspended, nil
	ch.forgetLocked()
	ch.sortLocked()
	ch.mu.Unlock()
	if err := ch.ini.Suspend(now); err != nil {
		ch.sweep() // the session has ended meanwhile
	}
}

// activate makes a channel that was connected use l, or if that is lost already
// wait for the next one.
func (ch *Channel) activate(m *mux) {
	ch.p.mu.Lock()
	ch.mu.Lock()
	usable := ch.p.mux == m
	if ch.state == channelConnecting || ch.state == channelSuspended {
		ch.state, ch.mux = channelReady, m
		ch.signs++ // the peer has answered: time without a connection is no silence
	}
	ch.mu.Unlock()
	ch.p.mu.Unlock()
	select {
	case <-m.gone:
		usable = false
	default:
	}
	if !usable {
		ch.suspend(m, ch.t.now())
		ch.p.mu.Lock()
		next := ch.p.mux
		ch.p.mu.Unlock()
		if next != nil && next != m { // next may have looked for suspended channels before this one was suspended
			ch.resume(ch.t.ctx, next)
		}
		return
	}
	ch.sync() // starts what waits
}

// sweep ends a channel whose initiator has ended without a connection.
func (ch *Channel) sweep() {
	ch.mu.Lock()
	suspended := ch.state == channelSuspended
	ch.mu.Unlock()
	if suspended && ch.ini.State() == objects.StateError {
		cause := error(objects.ErrDestroyed)
		if info, err := ch.ini.Query(); err == nil && info.Cause != nil {
			cause = info.Cause
		}
		ch.die(cause)
	}
}

// resume has the channels that lost their connection go on by l: first it finds
// out what has come, then each finds its target again.
func (m *mux) resume() {
	ctx := m.t.ctx
	var list []*Channel
	for _, ch := range m.p.allChannels() {
		ch.mu.Lock()
		if ch.state == channelSuspended {
			list = append(list, ch)
		}
		ch.mu.Unlock()
	}
	if len(list) == 0 || m.settle(ctx, list) != nil {
		return
	}
	work := make(chan *Channel)
	for range min(len(list), maxCalls) {
		m.t.work.Go(func() {
			for ch := range work {
				ch.resume(ctx, m)
			}
		})
	}
	for _, ch := range list {
		select {
		case work <- ch:
		case <-m.gone:
		}
	}
	close(work)
}

// doubt is what has to be asked about one queue of a connection that was lost.
type doubt struct {
	lost  uint64
	queue uint32
}

// settle decides about the messages whose fate is not known. An error leaves them
// for the next connection.
func (m *mux) settle(ctx context.Context, list []*Channel) error {
	doubts := make(map[doubt][]uint32)
	for _, ch := range list {
		ch.mu.Lock()
		for i := range ch.works {
			if w := &ch.works[i]; w.state == workDoubtful {
				d := doubt{w.lost, w.queue}
				doubts[d] = append(doubts[d], w.serial)
			}
		}
		ch.mu.Unlock()
	}
	for d, serials := range doubts {
		slices.SortFunc(serials, func(a, b uint32) int { return int(int32(a - b)) })
		numbers, known, err := m.inquire(ctx, d.lost, d.queue, serials)
		if err != nil {
			return err
		}
		came := make(map[uint32]bool, len(numbers))
		for _, n := range numbers {
			came[n] = true
		}
		for _, ch := range list {
			ch.settle(d, came, known)
		}
	}
	return nil
}

// settle completes the messages of d that have come, and those that may not be
// sent again.
func (ch *Channel) settle(d doubt, came map[uint32]bool, known bool) {
	var list []iwarp.Completion
	ch.mu.Lock()
	for i := range ch.works {
		w := &ch.works[i]
		if w.state != workDoubtful || w.lost != d.lost || w.queue != d.queue {
			continue
		}
		switch {
		case came[w.serial]:
			list = ch.finishLocked(list, uint32(i), iwarp.Success, 0)
		case !known || w.wr.Writes > 0:
			list = ch.finishLocked(list, uint32(i), iwarp.Flushed, 0)
		default:
			w.state = workWaits
			ch.waitLocked(uint32(i))
			ch.t.stats.repeated.Add(1)
		}
	}
	ch.sortLocked()
	ch.mu.Unlock()
	ch.attr.CQ.Push(list...)
}

// resume finds the channel's target again.
func (ch *Channel) resume(ctx context.Context, m *mux) {
	answer, err := m.call(ctx, &connect{mode: modeResume, host: ch.p.local, incarnation: ch.t.objects.Incarnation(), initiator: ch.Ref(),
		mtu: uint16(ch.attr.MTU), reads: uint8(ch.attr.Reads), service: ch.attr.Service, target: ch.target})
	if err != nil {
		return // the connection ends; the next one is asked
	}
	a, ok := answer.(*connected)
	if !ok || a.status != objects.StatusFound {
		ch.t.objects.PeerGone(ch.p.remote, ch.target)
		ch.sweep()
		return
	}
	if err := ch.ini.Resume(ch.t.now(), &bearer{ch}, ch.from(m)); err != nil {
		ch.sweep()
		return
	}
	ch.t.stats.resumed.Add(1)
	ch.limit(a.limits, a.reads)
	ch.activate(m)
}
