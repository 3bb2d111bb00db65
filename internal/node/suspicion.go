package node

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// suspicionRates is what a host takes of the look-ups that a peer grants it for keys it was not
// given (mr.Config.PeerLookUps, the same number there as here): a socket that guesses keys
// leaves the rest to the others of its host. All of them are refusals a second.
type suspicionRates struct {
	suspects  int // refusals of all suspected sockets together; 0: nobody is suspected
	share     int // refusals of each suspected socket
	strangers int // refusals of first operations, before sockets without a success count as suspects
}

func suspicionRatesOf(lookUps int) (r suspicionRates) {
	if lookUps == 0 {
		lookUps = xrc.PeerLookUps
	}
	if lookUps > 0 {
		r = suspicionRates{suspects: max(1, lookUps/4), share: max(1, lookUps/8), strangers: max(1, lookUps/8)}
	}
	return r
}

// maxSuspicions is how many peers a socket remembers that have refused operations of it.
const maxSuspicions = 1024

// suspicions are the peers that have refused operations of a socket.
type suspicions struct {
	n      atomic.Int32 // length of peers, readable without mu
	proved atomic.Bool  // some operation has succeeded

	mu    lockorder.Mutex[suspicions] // a leaf
	peers map[netip.Addr]*suspicion   // guarded by mu
}

// suspicion is about operations of a socket towards one peer. It is guarded by the lock of the
// socket's connection to that peer.
type suspicion struct {
	refused bool // the last operation was refused: there is one at a time
	left    allowance
}

// about is the suspicion of a peer, nil if there is none.
func (d *suspicions) about(peer netip.Addr) *suspicion {
	if d.n.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[peer]
}

// begin makes the suspicion of a peer.
func (d *suspicions) begin(peer netip.Addr) *suspicion {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.peers == nil {
		d.peers = make(map[netip.Addr]*suspicion)
	}
	if len(d.peers) >= maxSuspicions {
		clear(d.peers)
	}
	e := new(suspicion)
	d.peers[peer] = e
	d.n.Store(int32(len(d.peers)))
	return e
}

func (d *suspicions) end(peer netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.peers, peer)
	d.n.Store(int32(len(d.peers)))
}

// peerKeys is what a connection knows about keys of regions. The allowances are guarded by
// the lock of the peer.
type peerKeys struct {
	holder    atomic.Uint64 // the host as mr.Peer, 0 before it is needed
	suspects  allowance     // refusals of operations of sockets that had one before
	strangers allowance     // refusals of first operations of sockets
}

// as is the peer's host as regions note those that have their keys.
func (k *peerKeys) as(d *mr.Device, remote netip.Addr) mr.Peer {
	h := mr.Peer(k.holder.Load())
	if h == 0 {
		h = d.Peer(remote)
		k.holder.Store(uint64(h))
	}
	return h
}

// trustsLocked tells whether an operation may begin. Where the peer has refused the last one
// of its socket that is one at a time, and where it has refused many, none for the moment.
// An operation that may be refused pays in advance.
func (p *Peer) trustsLocked(op *Operation) bool {
	q, rates := &op.S.ops, &p.Node.suspicion
	e := q.suspicions.about(p.Remote)
	if rates.suspects == 0 || op.paid || e == nil && (q.suspicions.proved.Load() || p.strangers.full.IsZero()) {
		return true
	}
	now := time.Now()
	switch {
	case e == nil && p.strangers.has(now, rates.strangers):
		return true
	case e != nil && (e.refused && q.towards(p) || !e.left.has(now, rates.share)), !p.suspects.has(now, rates.suspects):
		return false
	}
	if e == nil {
		e = q.suspicions.begin(p.Remote)
	}
	e.left.spend(now, rates.share)
	p.suspects.spend(now, rates.suspects)
	op.paid = true
	return true
}

// learnLocked takes the end of an operation.
func (p *Peer) learnLocked(op *Operation) {
	d, rates := &op.S.ops.suspicions, &p.Node.suspicion
	if rates.suspects == 0 {
		return
	}
	switch transport.OpStatus(op.worst.Load()) {
	case transport.OpSuccess:
		if !d.proved.Load() {
			d.proved.Store(true)
		}
		e := d.about(p.Remote)
		if e == nil {
			return
		}
		e.refused = false
		if op.paid {
			e.left.refund(rates.share)
			p.suspects.refund(rates.suspects)
		}
		if e.left.idle(time.Now()) {
			d.end(p.Remote)
		}
	case transport.OpRefused:
		e, now := d.about(p.Remote), time.Now()
		if e == nil {
			e = d.begin(p.Remote)
			if !d.proved.Load() {
				p.strangers.spend(now, rates.strangers)
			}
		}
		e.refused = true
		if !op.paid {
			e.left.spend(now, rates.share)
			p.suspects.spend(now, rates.suspects)
		}
	}
}

// towards tells whether an operation of the socket towards a peer is under way.
func (q *socketOps) towards(p *Peer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for op := q.head; op != nil; op = op.next {
		if op.Peer == p {
			return true
		}
	}
	return false
}

// allowance is a bucket of tokens, a second's worth of them: the time at which it is full
// again, zero if nothing was ever taken.
type allowance struct{ full time.Time }

const (
	allowanceDepth = time.Second
	allowanceDebt  = 4 * time.Second
)

// after is when the bucket will be full again with a token less; rate of them grow a second.
func (a *allowance) after(now time.Time, rate int) time.Time {
	if a.full.After(now) {
		now = a.full
	}
	return now.Add(time.Second / time.Duration(rate))
}

// has tells whether there is a token.
func (a *allowance) has(now time.Time, rate int) bool {
	return !a.after(now, rate).After(now.Add(allowanceDepth))
}

// spend takes a token, whether there is one or not.
func (a *allowance) spend(now time.Time, rate int) {
	if a.full = a.after(now, rate); a.full.After(now.Add(allowanceDebt)) {
		a.full = now.Add(allowanceDebt)
	}
}

// refund gives a token back.
func (a *allowance) refund(rate int) { a.full = a.full.Add(-time.Second / time.Duration(rate)) }

// idle tells whether the bucket is full.
func (a *allowance) idle(now time.Time) bool { return !a.full.After(now) }
