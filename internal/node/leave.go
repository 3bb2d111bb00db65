package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/transport"
)

// A node that is stopped in peace leaves in this order, so that no peer has anything
// under way to it when its links end:
//
//  1. All ports are congested: peers begin no messages any more.
//  2. What was sent is acknowledged.
//  3. Nobody can connect: the system refuses connections, before anything is
//     acknowledged on them. Those that it has made are links as others.
//  4. No link is dialed any more. A dial under way is waited for, a tenth of the time at
//     most.
//  5. Each link is surveyed, twice. The first answer follows all that the peer had begun
//     to write; the second that our acknowledgements of it are on their way.
//  6. Our directions end; links are read until the peers have ended theirs.

// BeginLeaving marks all ports congested.
func (n *Node) BeginLeaving() {
	n.Leaving.Store(true)
	for _, la := range n.AllLocals() {
		la.Leaving.Store(true)
		la.Announce(n)
	}
}

// Leave ends all links. It returns when they have ended, at the latest at the time
// given, or when cut is closed.
func (n *Node) Leave(until time.Time, cut <-chan struct{}) {
	for _, t := range slices.Backward(n.wires) { // the preferred one last, as it listens first
		t.Unlisten()
	}
	n.self.Unlisten()
	n.Succession.Open() // links that wait end with the others
	left := time.Until(until)
	late, silent, dialed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer time.AfterFunc(left, func() { close(late) }).Stop()
	defer time.AfterFunc(left/10, func() { close(dialed) }).Stop()
	defer time.AfterFunc(left/2, func() { close(silent) }).Stop() // peers that do not answer pings are given up
	var wg sync.WaitGroup
	n.EachPeer(func(p *Peer) {
		wg.Go(func() {
			if !p.Part(dialed, silent, late, cut) {
				p.log.Warn("a link did not end in time: messages of the peer may be lost")
			}
		})
	})
	wg.Wait()
}

// Part ends the peer's links, and tells whether it had the time to.
func (p *Peer) Part(dialed, silent, late, cut <-chan struct{}) bool {
	p.Lock()
	p.Core.Retire()
	p.Commit()
	p.Await(dialed, cut, func() bool { return !p.Core.Dialing() })
	p.Await(silent, cut, p.Core.Retired)
	p.Lock()
	p.Core.Depart()
	p.Arm()
	p.Commit()
	return p.Await(late, cut, func() bool { return p.Linked() == 0 })
}

// closeWait is how long a node that is closed waits for its links to end.
const closeWait = time.Second

// endLinks closes all peers and waits until their links have ended: the links may have to
// acknowledge what sockets have received.
func (n *Node) endLinks() {
	late := make(chan struct{})
	defer time.AfterFunc(closeWait, func() { close(late) }).Stop()
	var wg sync.WaitGroup
	n.EachPeer(func(p *Peer) {
		wg.Go(func() {
			if p.Told.Load() {
				p.Await(late, nil, p.Introduced)
			}
			p.close()
			p.Await(late, nil, func() bool { return p.Linked() == 0 })
		})
	})
	wg.Wait()
}

// Abandon gives up what the socket has sent and peers have not acknowledged, logs it for
// each peer, and reports it dropped.
func (s *Socket) Abandon() (messages, bytes int) {
	if s.Account.Messages() == 0 {
		return 0, 0
	}
	s.Node.EachPeer(func(p *Peer) {
		if p.Local != s.At {
			return
		}
		m, b := p.abandon(s)
		if m > 0 {
			p.log.Warn("stopped with unacknowledged messages", zap.Uint16("port", s.Port), zap.Int("messages", m), zap.Int("bytes", b))
		}
		messages, bytes = messages+m, bytes+b
	})
	return messages, bytes
}

// LogUndelivered logs, for each peer, what was received and not handed over.
func (n *Node) LogUndelivered() {
	type sum struct{ messages, bytes int }
	left := make(map[uint32]sum)
	socks := n.Sockets()
	for _, la := range n.AllLocals() {
		la.Mu.Lock()
		socks = slices.AppendSeq(socks, maps.Values(la.Keepers))
		la.Mu.Unlock()
	}
	for _, s := range socks {
		s.Queue.Each(func(it *socket.Item) bool {
			l := left[it.Peer]
			left[it.Peer] = sum{l.messages + 1, l.bytes + int(it.Length)}
			return true
		})
	}
	for i, l := range left {
		if p := n.PeerAt(i); p != nil {
			p.log.Warn("stopped with messages that applications did not take", zap.Int("messages", l.messages), zap.Int("bytes", l.bytes))
		}
	}
}

// Cut ends the links that have operations of the socket, which then end: nobody else
// can do without these links longer than the node, which ends as well. Its error is
// ErrBusy if they go on nevertheless.
func (s *Socket) Cut() error {
	for _, op := range s.ops.all() {
		op.Peer.cut(op)
	}
	return s.ops.wait(func(*Operation) bool { return true })
}

// cut ends the link that has an operation.
func (p *Peer) cut(op *Operation) {
	p.Lock()
	l := p.Link(op.path)
	p.Unlock()
	if l != nil {
		l.Close(transport.Abort)
	}
}
