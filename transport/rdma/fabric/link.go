package fabric

import (
	"context"
	"sync"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// link is one connection between two hosts, from the attempt to its end. It carries
// the channels of both sides.
type link struct {
	f      *Fabric
	p      *peer
	id     uint64 // number of the connection, given by the dialing side
	dialed bool   // this side has dialed

	qp      *iwarp.QP
	sendCQ  *iwarp.CQ
	recvCQ  *iwarp.CQ // completion queue of the queue pair's own receive queue, which nobody uses
	control control
	ledger  *ledger

	incarnation uint64 // the peer's; constant from before up
	scanned     int    // next of the pairs to be asked for; maintain's

	ended    chan struct{} // closed when nothing leaves or comes any more
	finished chan struct{} // closed when nothing is left
	wg       sync.WaitGroup
	posting  sync.WaitGroup // channels between take and posted

	mu      sync.Mutex
	room    int            // guarded by mu; work requests that may be posted
	queued  map[uint32]int // guarded by mu; messages that are posted, by their queue
	over    bool           // guarded by mu; no work request may be posted any more
	why     error          // guarded by mu
	starved []*Channel     // guarded by mu; channels that found no room, in the order of their turns
}

// newLink makes a connection to be, with everything that the peer may use as soon
// as there is one.
func (f *Fabric) newLink(p *peer, id uint64, dialed bool) (*link, error) {
	l := &link{f: f, p: p, id: id, dialed: dialed, ledger: new(ledger), ended: make(chan struct{}), finished: make(chan struct{}), room: f.cfg.MaxSend, queued: make(map[uint32]int)}
	var err error
	total := f.cfg.MaxSend + controlSends
	if l.sendCQ, err = f.dev.CreateCQ(2 * total); err != nil {
		return nil, err
	}
	if l.recvCQ, err = f.dev.CreateCQ(1); err != nil {
		_ = l.sendCQ.Close()
		return nil, err
	}
	l.qp, err = f.pd.CreateQP(iwarp.QPConfig{SendCQ: l.sendCQ, RecvCQ: l.recvCQ, MaxSend: total, MaxReceive: 1, MaxInline: max(f.cfg.MaxInline, 1), SignalAll: true})
	if err == nil {
		err = l.control.init(l)
	}
	if err != nil {
		l.release()
		return nil, err
	}
	f.linksMu.Lock()
	f.links[l.qp] = l
	f.linksMu.Unlock()
	return l, nil
}

// params are those of the connection, with what is said in its private data. Any
// number of requests may be refused: one process that tries wrong queues must not
// cost all others of its host their connection, and a refusal costs us no more than a
// message.
func (l *link) params(private []byte) iwarp.ConnParams {
	p := l.p.params(private)
	p.Shared = &iwarp.SharedParams{Queues: (*finder)(l), Send: true, Incarnation: l.f.xrc.Incarnation(), Errors: -1, Require: true}
	return p
}

// run serves the connection; up says whether it has become its peer's.
func (l *link) run(up bool) {
	l.wg.Go(l.control.listen)
	l.wg.Go(l.control.talk)
	l.f.wg.Go(func() { l.pump(up) })
}

// pump takes completions to their channels until the connection has ended, and then
// passes on what it leaves.
func (l *link) pump(up bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.wg.Go(func() { <-l.qp.Done(); cancel() })
	var list [64]iwarp.Completion
	for {
		n := l.sendCQ.Poll(list[:])
		for i := range list[:n] {
			l.complete(&list[i])
		}
		if n > 0 {
			l.feed()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		_ = l.sendCQ.Wait(ctx)
	}
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.posting.Wait()
	for n := l.sendCQ.Poll(list[:]); n > 0; n = l.sendCQ.Poll(list[:]) {
		for i := range list[:n] {
			l.complete(&list[i])
		}
	}
	close(l.ended)
	l.wg.Wait()
	l.p.lost(l, up)
	l.f.linksMu.Lock()
	delete(l.f.links, l.qp)
	l.f.linksMu.Unlock()
	l.release()
	close(l.finished)
}

// complete is the end of a work request.
func (l *link) complete(c *iwarp.Completion) {
	index, slot := uint32(c.ID>>32), uint32(c.ID)
	if index == controlIndex {
		l.control.sent(slot)
		return
	}
	if ch := l.p.channel(index); ch != nil {
		ch.complete(l, slot, c)
	}
}

// mayTakeLocked tells whether n work requests, one of them a message to queue, may
// be posted. A queue that does not take its messages holds no more places than it
// leaves for all others, and the last of them are for queues that hold none: one for
// each, so that many such queues do not hold them all.
func (l *link) mayTakeLocked(queue uint32, n int) bool {
	return n <= l.room && (queue == 0 || l.queued[queue] == 0 || l.queued[queue] < l.room-l.f.cfg.MaxSend/lastPlaces)
}

// lastPlaces is the part of a connection's places that is for queues that hold none.
const lastPlaces = 4

func (l *link) takeLocked(queue uint32, n int) {
	l.room -= n
	if queue != 0 {
		l.queued[queue]++
	}
}

// starveLocked has ch told of the next places.
func (l *link) starveLocked(ch *Channel) {
	if ch.starvedBy != l {
		ch.starvedBy = l
		l.starved = append(l.starved, ch)
	}
}

func (l *link) posted() { l.posting.Done() }

// give gives the place of a work request back; feed, which follows with no lock held,
// tells those who wait. What was flushed must not be posted here again.
func (l *link) give(queue uint32, flushed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room++
	l.over = l.over || flushed
	if queue != 0 {
		if l.queued[queue]--; l.queued[queue] == 0 {
			delete(l.queued, queue)
		}
	}
}

func (l *link) feed() {
	l.mu.Lock()
	list := l.starved
	l.starved = nil
	for _, ch := range list {
		ch.starvedBy = nil
	}
	l.mu.Unlock()
	for _, ch := range list {
		ch.start()
	}
}

// end ends the connection, if it has not ended, for a cause.
func (l *link) end(cause error) {
	l.mu.Lock()
	if l.why == nil {
		l.why = cause
	}
	l.mu.Unlock()
	l.qp.Fail()
}

// cause is why the connection has ended.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil {
		return l.why
	}
	return l.qp.Err()
}

// abandon ends a connection that has not come up.
func (l *link) abandon(cause error) {
	l.end(cause)
	l.run(false)
	<-l.finished
}

// release gives everything back.
func (l *link) release() {
	if l.qp != nil {
		_ = l.qp.Close()
	}
	l.control.release()
	_ = l.recvCQ.Close()
	_ = l.sendCQ.Close()
}

// bye tells the peer that this incarnation ends, and ends the connection.
func (l *link) bye(ctx context.Context) {
	l.control.bye()
	select {
	case <-l.ended:
	case <-l.control.said:
		_ = l.qp.Disconnect()
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// memory is registered for one connection and leaves with it.
func (f *Fabric) memory(n int) (*iwarp.MR, error) {
	return f.pd.RegMR(make([]byte, n), mr.LocalWrite, 0)
}

// deregister waits for what is being placed, which is not long.
func deregister(m *iwarp.MR) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = m.Dereg(ctx)
}
