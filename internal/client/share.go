package client

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
)

// An application accounts for what it sends by destination: what waits for a peer that is
// down must not use up what it needs to send to others. That is each socket's send buffer,
// the budget of the session, and the send arena. The table tells which peers are down, the
// cells and the segment how much waits for them; conn.HasRoomFor has the rule.

// downBytes is what was charged for each peer since that was seen to be down. What had been
// charged before counts as other peers': what is used is known, not for whom.
type downBytes struct {
	n  atomic.Int32               // number of peers in of
	mu lockorder.Mutex[downBytes] // guards the fields below; a leaf
	of map[uint32]int

	limited []limitedBytes // charges in of that end with the time limit of a message
	next    time.Time      // the earliest limit of limited
}

// own is what was charged for a peer that is down, at most used.
func (d *downBytes) own(peer uint32, used int) int {
	if d.n.Load() == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireLocked()
	return min(d.of[peer], used)
}

// limitedBytes are n bytes charged for a peer that is down, of a message with a time limit.
type limitedBytes struct {
	peer  uint32
	n     int
	limit time.Time
}

// until says that n of the bytes charged for a peer are free again when limit is over.
func (d *downBytes) until(peer uint32, n int, limit time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[peer] < n { // the peer has come up
		return
	}
	d.limited = append(d.limited, limitedBytes{peer, n, limit})
	if len(d.limited) == 1 || limit.Before(d.next) {
		d.next = limit
	}
}

// expireLocked forgets messages whose time limit is over: the daemon has ended them, or does
// so now. It is early by a little, so that who is woken by that finds room.
func (d *downBytes) expireLocked() {
	if len(d.limited) == 0 {
		return
	}
	now := time.Now().Add(time.Millisecond)
	if d.next.After(now) {
		return
	}
	left := d.limited[:0]
	for _, m := range d.limited {
		switch {
		case !m.limit.After(now):
			d.of[m.peer] = max(0, d.of[m.peer]-m.n)
			continue
		case len(left) == 0 || m.limit.Before(d.next):
			d.next = m.limit
		}
		left = append(left, m)
	}
	d.limited = left
}

func (d *downBytes) add(peer uint32, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[uint32]int)
	}
	d.of[peer] += n
	d.n.Store(int32(len(d.of)))
}

// up forgets a peer that is not down, or was canceled to.
func (d *downBytes) up(peer uint32) {
	if d.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, peer)
	d.limited = slices.DeleteFunc(d.limited, func(m limitedBytes) bool { return m.peer == peer })
	d.n.Store(int32(len(d.of)))
}

// canceled takes what a cancel has freed from what was charged for the peer, or forgets
// all peers.
func (d *downBytes) canceled(peer uint32, all bool, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all {
		clear(d.of)
		d.limited = nil
	} else if d.of[peer] > 0 {
		d.of[peer] = max(0, d.of[peer]-n)
	}
	d.n.Store(int32(len(d.of)))
}

// budget is what a session may have submitted that is not settled.
type budget struct {
	account conn.Account // memory of the session's messages; limit 0: the daemon states no budget
	downs   downBytes
}

// cost is what a message of n bytes counts against the budget.
func cost(n int) int { return n + socket.ItemCost }

// shortage is why there is no room for a message.
type shortage int

const (
	taken      shortage = iota
	fullSocket          // the socket's send buffer is full
	fullBudget          // the session's budget is used up
)

// take takes room for a message of n bytes.
func (h *half) take(peer uint32, n int) shortage {
	t := h.att
	down := t.table.Down(int(peer))
	if !down {
		h.downs.up(peer)
		t.budget.downs.up(peer)
	}
	if !t.budget.charge(t, peer, n, down) {
		return fullBudget
	}
	own := 0
	if down {
		own = h.downs.own(peer, h.account.Bytes())
	}
	if !h.account.ChargeFor(n, down, h.heldBytes, own) {
		t.budget.account.Refund(cost(n), 1)
		return fullSocket
	}
	if down {
		h.downs.add(peer, n)
		t.budget.downs.add(peer, cost(n))
	}
	return taken
}

func (b *budget) charge(t *attachment, peer uint32, n int, down bool) bool {
	if b.account.Limit() == 0 {
		b.account.Admit(cost(n))
		return true
	}
	own := 0
	if down {
		own = b.downs.own(peer, b.account.Bytes())
	}
	return b.account.ChargeFor(cost(n), down, func() int { return b.held(t) }, own)
}

// held is what of the budget waits for peers that are down or hold it back, less than one
// and a half budgets: beyond that the daemon takes nothing, even if all is held back.
func (b *budget) held(t *attachment) int {
	limit := b.account.Limit()
	return min(int(t.seg.Held().Load()), limit+limit/2-1)
}

// hasRoom tells whether a message to a peer that is up is taken.
func (b *budget) hasRoom(t *attachment) bool {
	room := func() bool {
		limit := int64(b.account.Limit())
		return limit == 0 || conn.HasRoomFor(limit, int64(b.account.Bytes()), int64(b.held(t)), 0, false)
	}
	if room() {
		return true
	}
	t.collectAll()
	return room()
}

// untake is the opposite of take. What retire has taken back meanwhile it leaves.
func (h *half) untake(peer uint32, n int) {
	h.freedMu.Lock()
	b, m := n, 1
	if h.retired {
		b, m = min(n, h.account.Bytes()), min(1, h.account.Messages())
	}
	h.account.Refund(b, m)
	h.att.budget.account.Refund(b+m*socket.ItemCost, m)
	h.freedMu.Unlock()
	if h.att.table.Down(int(peer)) {
		h.downs.add(peer, -n)
		h.att.budget.downs.add(peer, -cost(n))
	}
}

// expires follows the submission of a message: if its peer is down its time limit frees what
// it was charged for.
func (h *half) expires(peer uint32, n int, limit time.Time) {
	if !limit.IsZero() && h.att.table.Down(int(peer)) {
		h.downs.until(peer, n, limit)
		h.att.budget.downs.until(peer, cost(n), limit)
	}
}

// canceled follows a cancel of what was sent to remote, or of all, which has freed so much.
func (h *half) canceled(local, remote netip.Addr, bytes, messages int) {
	h.att.peerMu.RLock()
	peer, ok := h.att.resolved[[2]netip.Addr{local, remote.Unmap()}]
	h.att.peerMu.RUnlock()
	if all := !remote.IsValid(); all || ok && bytes > 0 {
		h.downs.canceled(peer, all, bytes)
		h.att.budget.downs.canceled(peer, all, bytes+messages*socket.ItemCost)
	}
}

// heldBytes is what of the send buffer waits for peers that are down or hold it back.
func (h *half) heldBytes() int { return int(h.cell.Held.Load()) }

// roomForOthers tells whether a message to a peer that is up is taken, counting what the
// daemon has settled so far as it was collected.
func (h *half) roomForOthers() bool {
	return h.account.HasRoom() || conn.HasRoomFor(int64(h.account.Limit()), int64(h.account.Bytes()), int64(h.heldBytes()), 0, false)
}

// collectAll takes back what the daemon has settled of all sockets.
func (t *attachment) collectAll() {
	for _, s := range t.c.sockets() {
		if h := s.half.Load(); h != nil && h.att == t {
			h.collect()
		}
	}
}

// retire takes what the daemon has had of a socket that it has closed back into the budget.
func (h *half) retire() {
	h.freedMu.Lock()
	defer h.freedMu.Unlock()
	h.retired = true
	b, m := h.account.Bytes(), h.account.Messages()
	h.account.Refund(b, m)
	h.att.budget.account.Refund(b+m*socket.ItemCost, m)
	h.att.space.Wake(-1)
}

// attempt has the daemon connect to a peer that is down, of whose messages none was taken.
func (h *half) attempt(local, remote netip.Addr, peer uint32) {
	t := h.att
	if !t.table.Down(int(peer)) || h.downs.own(peer, h.account.Bytes()) != 0 {
		return
	}
	if _, busy := t.attempts.LoadOrStore(peer, struct{}{}); !busy {
		go func() {
			defer t.attempts.Delete(peer)
			_, _ = t.call(context.Background(), ipc.Request{Op: ipc.CallResolve, Local: local, Remote: remote, Wait: true})
		}()
	}
}

// arenaShares is how much of the send arena is lent for each peer, guarded by submission.mu.
type arenaShares struct {
	blocks []arenaBlock   // indexed by offset in units of ipc.MinBlock
	used   int            // bytes of all blocks handed out
	of     map[uint32]int // bytes lent, by peer
}

type arenaBlock struct {
	size int32
	lent bool
	peer uint32
}

// hasRoom tells whether a peer may have another block: one that is down while it has less
// than half of what the others leave, another one three quarters, so that there is room for
// others when it goes down with all it has.
func (a *arenaShares) hasRoom(total int, peer uint32, down bool) bool {
	own := a.of[peer]
	free := total - a.used + own
	if down {
		return own < (free+1)/2
	}
	return own < (free*3+3)/4
}

func (a *arenaShares) block(off int) *arenaBlock { return &a.blocks[off/ipc.MinBlock] }

// lend notes that a block is for a peer.
func (a *arenaShares) lend(off int, peer uint32) {
	b := a.block(off)
	b.lent, b.peer = true, peer
	if a.of == nil {
		a.of = make(map[uint32]int)
	}
	a.of[peer] += int(b.size)
}

// free notes that a block is free.
func (a *arenaShares) free(off int) {
	b := a.block(off)
	a.used -= int(b.size)
	if b.lent {
		if a.of[b.peer] -= int(b.size); a.of[b.peer] == 0 {
			delete(a.of, b.peer)
		}
	}
	*b = arenaBlock{}
}

// lends tells whether a peer may have another block.
func (t *attachment) lends(peer uint32) bool {
	down := t.table.Down(int(peer))
	u := &t.submission
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lent.hasRoom(len(u.bodies), peer, down)
}

// peerNews follows the daemon's word that a congestion map has come, or that a peer has
// come up or is down.
func (t *attachment) peerNews() {
	t.maps.Wake(-1)
	bars := t.table.Bars()
	barred := t.bars.Swap(bars) != bars // Every sender looks whether its peer is still allowed.
	if t.waitDown.Load() == 0 && !barred {
		return
	}
	t.space.Wake(-1)
	for _, s := range t.c.sockets() {
		if barred || s.waitDown.Load() > 0 {
			s.writers.Wake(-1)
		}
	}
}
