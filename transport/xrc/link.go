package xrc

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// link is a connection of a path: a queue pair with the messages and operations of RDS on it,
// and on path 0 the messages of channels.
type link struct {
	transport.Plain
	t             *Transport
	p             *peer
	id            uint64    // number of the connection, given by the side that dials
	index         int       // index of the path, -1 for a question
	path          *path     // nil for a question
	dialed        bool      // this side has made the connection, for RDS to use
	lifetime      *lifetime // guarded by Transport.mu: the peer's, nil while the link carries no queue pairs
	paired        bool      // the path's queue pairs were told to the peer, and the link was not put to use
	qp            *iwarp.QP
	cq            *iwarp.CQ // completion queue of everything
	mux           *mux      // carries channels; nil but on path 0
	local, remote netip.AddrPort
	hello         hello  // what the peer has said
	incarnation   uint64 // the peer's
	crc           bool   // segments have a CRC
	in            input
	queueOf       func(port uint16) uint32     // routes.queue
	routes        routes                       // which of the peer's queues messages go to
	targetNumber  atomic.Uint32                // number of the path's target, 0 while the link carries none
	told          sync.Map                     // queues of applications that the peer has been told of: *Queue by number
	memory        func(port uint16) *mr.Domain // protection domain of the program that has a port of ours

	// The writer's.
	out  sender
	reqs []iwarp.WorkRequest // scratch of operate
	runs []*running          // scratch of operate
	ops  operations

	taking chan struct{} // token (cap 1): its holder takes completions; not given back by the last one

	mu      lockorder.Mutex[link]
	h       transport.Handler // guarded by mu; nil before Start
	hears   int               // guarded by mu: calls under way, of Writable among them, that the end waits for
	over    bool              // guarded by mu: the queue pair has ended
	closing bool              // guarded by mu: Close was called
	aborted bool              // guarded by mu: Close was called with Abort
	late    bool              // guarded by mu: the peer did not end its side in time
	drain   *time.Timer       // guarded by mu
	cause   error             // guarded by mu; set with over
	once    sync.Once
}

// maxPaths is how many paths a pair of hosts may have.
const maxPaths = 8

// channelPlaces is how many places of a send queue are for channels; with the default Operations the
// queue has 512.
const channelPlaces = 440

// newLink makes a connection to be, of a path or for a question.
func (t *Transport) newLink(h hosts, index int, id uint64) (*link, error) {
	if index >= maxPaths {
		return nil, errHello
	}
	memory := t.opts.Protection(h.local)
	if memory == nil { // the node does not have the address yet, and ends the link unless it has it by then
		memory = func(port uint16) *mr.Domain {
			if m := t.opts.Protection(h.local); m != nil {
				return m(port)
			}
			return nil
		}
	}
	l := &link{t: t, index: index, id: id, memory: memory, taking: make(chan struct{}, 1)}
	l.taking <- struct{}{}
	sends, most := t.opts.Operations, t.opts.Operations
	if index == 0 {
		sends, most = sends+min(t.opts.MaxSend, channelPlaces)+controlSends, most+t.opts.MaxSend+controlSends
	}
	var err error
	if l.cq, err = t.dev.CreateCQ(most); err != nil {
		return nil, err
	}
	if l.qp, err = t.pd.CreateQP(iwarp.QPConfig{SendCQ: l.cq, RecvCQ: l.cq, MaxSend: sends, MaxUnderWay: most, MaxReceive: 1, MaxInline: max(t.opts.MaxInline, 1), SignalAll: true, Completed: l.completedSome}); err != nil {
		return nil, errors.Join(err, l.cq.Close())
	}
	l.in.link, l.queueOf = l, l.routes.queue
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = l.qp.Close()
		_ = l.cq.Close()
		return nil, ErrClosed
	}
	l.p = t.peerLocked(h)
	if index >= 0 {
		l.path = l.p.pathLocked(index)
	}
	if index == 0 {
		l.mux = newMux(l)
	}
	t.links[l] = struct{}{}
	t.work.Add(1)
	return l, nil
}

func (l *link) params(ours hello) iwarp.ConnParams {
	p := iwarp.ConnParams{
		// Peers of RDS on XRC know revision 2. Without Rev the set-up would be tried again
		// with revision 1 after a peer has refused a Request that had changed on its way.
		Rev: 2,
		IRD: maxReads, ORD: maxReads, PeerToPeer: true, Guard: -1, Seal: true,
		Private: ours.bytes(),
		Shared: &iwarp.SharedParams{
			Silence: l.t.opts.Silence, Queues: (*finder)(l), Send: true, Incarnation: l.t.objects.Incarnation(),
			Sink: &l.in, Reservation: l.t.reservation, Protection: (*finder)(l).Protection, Target: (*finder)(l).Target,
			// Any number of requests may be refused: one process that tries wrong queues must
			// not cost all others of its host their connection, and a refusal costs us no
			// more than a message.
			Errors: -1, Require: true,
		},
	}
	if l.mux != nil {
		p.Shared.Delivered = l.mux.delivered
	}
	l.t.opts.CRC.ask(&p)
	return p
}

// established follows the set-up.
func (l *link) established(est *iwarp.Established) {
	l.local, l.remote, l.crc = est.Local, est.Remote, est.CRC
	l.routes.first = l.hello.queue
	if l.mux != nil {
		l.mux.incarnation = l.incarnation
	}
}

// maxReads is how many reads and atomics one side may have outstanding.
const maxReads = 64

// Start begins delivery to h.
func (l *link) Start(h transport.Handler) error {
	l.mu.Lock()
	if l.h != nil || l.closing {
		l.mu.Unlock()
		return transport.ErrClosed
	}
	l.h = h
	l.hears++ // the end of the link waits, for it gives back what carry takes
	l.mu.Unlock()
	l.carry()
	l.mu.Lock()
	l.in.start(h, &l.t.pool, uint32(l.t.opts.MaxMessage))
	over := l.over
	l.mu.Unlock()
	if !over { // a queue pair that ended before Start had no handler to tell
		l.qp.SinkReady()
	}
	l.heard()
	return nil
}

// carry puts the queue pairs of the path on the link, and channels, or has it wait for that.
func (l *link) carry() {
	if !l.paired || !l.hello.paired() || !l.lives() {
		return
	}
	l.paired = false
	l.t.objects.HostUp(l.p.remote, l.incarnation)
	l.p.use(l.path)
	if err := l.path.carry(l); err != nil {
		l.t.opts.Logger.Warn("path without queue pairs", zap.Stringer("peer", l.p.remote), zap.Error(err))
		return
	}
	if l.mux != nil {
		l.p.up(l.mux)
	}
}

func (l *link) abort() { l.Close(transport.Abort) }

// Acked returns how much of what was written the peer's RDS has taken.
func (l *link) Acked() uint64 { return l.qp.FramesAcked() }

// Ask has the peer tell now what it has taken.
func (l *link) Ask() { l.qp.AskAcked() }

// Close ends the link.
func (l *link) Close(mode transport.CloseMode) {
	l.mu.Lock()
	started, first := l.h != nil, !l.closing
	if !started && l.over && first {
		l.closing = true
		l.mu.Unlock()
		l.t.work.Go(l.finish)
		return
	}
	l.closing = true
	abort := (mode == transport.Abort || !started) && !l.aborted
	l.aborted = l.aborted || abort
	if !abort && first && !l.over {
		l.drain = time.AfterFunc(l.t.opts.CloseTimeout, l.drainTimeout)
	}
	l.mu.Unlock()
	switch {
	case abort:
		l.qp.Reset()
	case first && l.qp.Disconnect() != nil:
		l.Close(transport.Abort)
	}
}

func (l *link) drainTimeout() {
	l.mu.Lock()
	l.late = !l.aborted
	l.mu.Unlock()
	l.Close(transport.Abort)
}

// LocalAddr returns our end.
func (l *link) LocalAddr() netip.AddrPort { return l.local }

// RemoteAddr returns the peer's end.
func (l *link) RemoteAddr() netip.AddrPort { return l.remote }

// Caps are what the set-up has settled.
func (l *link) Caps() transport.Caps {
	return transport.Caps{Operations: true, Refuses: l.qp.Refuses(), Queues: true, Reserves: l.qp.Reserves(), AcksTold: true,
		Path: l.index, Generation: l.hello.generation, GenerationStated: true, CRC: l.crc, Limit: l.hello.limit}
}

// TCPInfo is what the kernel knows of the connection.
func (l *link) TCPInfo() (transport.TCPInfo, bool) { return l.qp.TCPInfo() }

// Stats returns what reports show of the link.
func (l *link) Stats() transport.LinkStats {
	s := transport.LinkStats{Transport: Name, Acked: l.Acked(), Written: l.qp.FramesSent(), Operations: l.ops.outstanding()}
	s.HeaderRemaining, s.PayloadRemaining = l.in.Remaining()
	return s
}

// writable tells the handler, unless it has heard the end.
func (l *link) writable() {
	l.mu.Lock()
	if l.h == nil || l.over {
		l.mu.Unlock()
		return
	}
	l.hears++
	l.mu.Unlock()
	l.h.Writable()
	l.heard()
}

// heard ends a call that the end of the link waits for.
func (l *link) heard() {
	l.mu.Lock()
	l.hears--
	last := l.over && l.hears == 0
	l.mu.Unlock()
	if last {
		l.t.work.Go(l.finish)
	}
}

// ended follows the last call of the queue pair.
func (l *link) ended(cause error) {
	l.mu.Lock()
	l.over, l.cause = true, cause
	switch {
	case l.late:
		l.cause = transport.ErrDrainTimeout
	case errors.Is(cause, iwarp.ErrPeerClosed), errors.Is(cause, iwarp.ErrClosed) && l.closing && !l.aborted:
		l.cause = io.EOF // either side has ended after the other
	case errors.Is(cause, iwarp.ErrClosed):
		l.cause = transport.ErrClosed
	}
	if l.drain != nil {
		l.drain.Stop()
	}
	now := l.hears == 0 && (l.h != nil || l.closing)
	l.mu.Unlock()
	if now {
		l.finish()
	}
}

// finish reports the end and gives back what the link has. It is called when nobody
// is in a handler, and does it once.
func (l *link) finish() {
	l.once.Do(func() {
		l.qp.Reset() // for a queue pair that was never connected
		<-l.qp.Done()
		acked := l.Acked()
		if l.mux != nil {
			l.mux.stop()
		}
		<-l.taking
		for l.takeCompletions(completeBatches) {
		}
		l.endOperations()
		if l.mux != nil {
			l.mux.finish()
		}
		if l.path != nil {
			if l.paired {
				l.path.dropped()
			}
			l.path.lost(l)
		}
		l.dies()
		for _, q := range l.t.allQueues() {
			q.forget(l)
		}
		_ = l.qp.Close()
		_ = l.cq.Close()
		if l.h != nil {
			l.in.Reset()
			l.h.Closed(l.cause, acked)
		}
		l.t.mu.Lock()
		delete(l.t.links, l)
		l.t.leaveLocked(l.p)
		l.t.mu.Unlock()
		l.t.work.Done()
	})
}

// opsIndex stands for operations of RDS in ids of work requests, in the place of a channel's
// index; the lower half of the id is the operation's number.
const opsIndex = 1<<32 - 2

// completedSome is for iwarp.QPConfig.
func (l *link) completedSome() (more bool) {
	select {
	case <-l.taking:
		more = l.takeCompletions(completeBatches)
		l.taking <- struct{}{}
	default: // the end of the link takes the rest
	}
	return more
}

// completeBatches bounds the completions that are taken before others on the event loop have a turn.
const completeBatches = 8

// takeCompletions takes so many batches of the completions that there are to whoever posted the work requests,
// and tells those who wait for room. It tells whether there may be more.
func (l *link) takeCompletions(batches int) (more bool) {
	var list [completeBatch]iwarp.Completion
	for more = true; more && batches > 0; batches-- {
		n := l.cq.Poll(list[:])
		more = n == len(list)
		for rest := list[:n]; len(rest) > 0; {
			index, k := rest[0].ID>>32, 1
			for k < len(rest) && rest[k].ID>>32 == index {
				k++
			}
			if index == opsIndex {
				l.completed(rest[:k])
			} else {
				l.mux.complete(uint32(index), rest[:k])
			}
			rest = rest[k:]
		}
		l.roomForOperations()
		if l.mux != nil {
			l.mux.feed()
		}
	}
	return more
}
