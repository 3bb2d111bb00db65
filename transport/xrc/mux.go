package xrc

import (
	"context"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// mux is the part of a link that carries the channels of both sides, and the messages by which
// the two transports talk about them.
type mux struct {
	l       *link
	t       *Transport
	p       *peer
	id      uint64 // number of the connection, that of l
	control control
	ledger  *ledger

	incarnation uint64 // the peer's; constant from before up
	scanned     int    // next of the pairs to be asked for; maintain's

	used    chan struct{} // closed when channels use the connection, and what its predecessor leaves is known
	gone    chan struct{} // closed when nothing leaves or comes any more
	wg      sync.WaitGroup
	posting sync.WaitGroup // channels between take and posted

	mu      lockorder.Mutex[mux]
	room    int            // guarded by mu; work requests that may be posted
	queued  map[uint32]int // guarded by mu; messages that are posted, by their queue
	over    bool           // guarded by mu; no work request may be posted any more
	why     error          // guarded by mu
	starved []*Channel     // guarded by mu; channels that found no room, in the order of their turns
}

func newMux(l *link) *mux {
	m := &mux{l: l, t: l.t, p: l.p, id: l.id, ledger: new(ledger), used: make(chan struct{}), gone: make(chan struct{}), room: l.t.opts.MaxSend}
	m.control.m = m
	return m
}

// stop follows the end of the queue pair: nothing is posted any more.
func (m *mux) stop() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.posting.Wait()
	m.control.stop()
}

// finish follows the last completion: it passes on what the connection leaves.
func (m *mux) finish() {
	close(m.gone)
	m.wg.Wait()
	m.p.lost(m)
	m.control.release()
}

// complete takes the ends of work requests of a channel, or of control messages.
func (m *mux) complete(index uint32, ends []iwarp.Completion) {
	if index == controlIndex {
		for i := range ends {
			m.control.sent(uint32(ends[i].ID))
		}
	} else if ch := m.p.channel(index); ch != nil {
		ch.complete(m, ends)
	}
}

// mayTakeLocked tells whether n work requests, one of them a message to queue, may
// be posted. A queue that does not take its messages holds no more places than it
// leaves for all others, and the last of them are for queues that hold none: one for
// each, so that many such queues do not hold them all.
func (m *mux) mayTakeLocked(queue uint32, n int) bool {
	return n <= m.room && (queue == 0 || m.queued[queue] == 0 || m.queued[queue] < m.room-m.t.opts.MaxSend/lastPlaces)
}

// lastPlaces is the part of a connection's places that is for queues that hold none.
const lastPlaces = 4

func (m *mux) takeLocked(queue uint32, n int) {
	m.room -= n
	if queue != 0 {
		if m.queued == nil {
			m.queued = make(map[uint32]int)
		}
		m.queued[queue]++
	}
}

// starveLocked has ch told of the next places.
func (m *mux) starveLocked(ch *Channel) {
	if ch.starvedBy != m {
		ch.starvedBy = m
		m.starved = append(m.starved, ch)
	}
}

func (m *mux) starve(ch *Channel) {
	m.mu.Lock()
	m.starveLocked(ch)
	m.mu.Unlock()
}

// starves is starveLocked for a channel that found the send queue full. It is false if the
// channel did not wait before, and has to look again.
func (m *mux) starves(ch *Channel) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited := ch.starvedBy == m
	m.starveLocked(ch)
	return waited
}

func (m *mux) posted() { m.posting.Done() }

// giveLocked gives back places of n work requests that were messages to queue, or no messages; feed,
// which follows with no lock held, tells those who wait.
func (m *mux) giveLocked(queue uint32, n int) {
	m.room += n
	if queue != 0 {
		if m.queued[queue] -= n; m.queued[queue] == 0 {
			delete(m.queued, queue)
		}
	}
}

// delivered notes a message to an application, for the peer to ask when the connection is lost.
func (m *mux) delivered(queue, serial uint32) {
	if queue != controlQueue {
		m.ledger.note(queue, serial)
	}
}

func (m *mux) feed() {
	m.mu.Lock()
	list := m.starved
	m.starved = nil
	for _, ch := range list {
		ch.starvedBy = nil
	}
	m.mu.Unlock()
	for _, ch := range list {
		ch.start()
	}
}

// end ends the connection, if it has not ended, for a cause.
func (m *mux) end(cause error) {
	m.mu.Lock()
	if m.why == nil {
		m.why = cause
	}
	m.mu.Unlock()
	m.l.Close(transport.Abort)
}

// cause is why the connection has ended.
func (m *mux) cause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why != nil {
		return m.why
	}
	return m.l.qp.Err()
}

// bye tells the peer that this incarnation ends, and ends the connection.
func (m *mux) bye(ctx context.Context) {
	m.control.bye()
	select {
	case <-m.gone:
	case <-m.control.said:
		m.l.Close(transport.Drain)
		select {
		case <-m.gone:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// memory is registered for one connection and leaves with it.
func (t *Transport) memory(n int) (*iwarp.MR, error) {
	return t.pd.RegMR(make([]byte, n), mr.LocalWrite, 0)
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
