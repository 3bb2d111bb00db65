package conn

import (
	"math"
	"sync/atomic"
)

// Account is the send buffer of one socket: the payload bytes it has queued
// or in flight, on all its connections, against its limit (net/rds/send.c,
// rs_snd_bytes and rds_sk_sndbuf). It is safe for concurrent use.
type Account struct {
	// Owner is whose account it is. The core passes it through untouched.
	Owner any
	// Whole is the socket's account if this one is what the socket has on one
	// connection; nil: this one is the whole. It is set before the first message.
	// What is admitted to a part, refunded and released counts in its whole, too.
	Whole *Account

	used     atomic.Int64 // see use
	limit    atomic.Int64
	watchers atomic.Int32
	shelved  atomic.Int64 // in a socket's part for one connection: bytes held back for ports of the peer (Conn.Hold)

	heldBytes, heldMessages atomic.Int64 // in a whole: sums of what Held returns of its parts

	// Every puts the account on the list of TakeFreed at each release, not only
	// at those worth waking a sender for. It is set before the first message.
	Every                         bool
	settledBytes, settledMessages atomic.Uint64 // what Settled returns
}

// An account has its payload bytes and its messages in one word, bytes above
// countBits, so that a message costs one atomic operation: up to 32 GiB and 268 million
// messages.
const (
	countBits = 28
	maxLimit  = 16 << 30
	downFlag  = math.MinInt64 // in Account.used of a part: the part's connection is down
)

// use is the word of bytes and messages.
func use(bytes, messages int) int64 { return int64(bytes)<<countBits + int64(messages) }

func bytesOf(used int64) int { return int(used &^ downFlag >> countBits) }

func messagesOf(used int64) int { return int(used & (1<<countBits - 1)) }

// add changes what an account has by bytes and messages, which may be negative.
func (a *Account) add(bytes, messages int) {
	if a.used.Add(use(bytes, messages)) < 0 && a.Whole != nil { // SetDown
		a.Whole.hold(bytes, messages)
	}
}

// hold changes the sums of a whole.
func (a *Account) hold(bytes, messages int) {
	a.heldBytes.Add(int64(bytes))
	a.heldMessages.Add(int64(messages))
}

// whole is the account that has the limit.
func (a *Account) whole() *Account {
	if a.Whole != nil {
		return a.Whole
	}
	return a
}

// Settled returns the payload and the messages the core has released so far, of an
// account with Every set.
func (a *Account) Settled() (bytes, messages uint64) {
	return a.settledBytes.Load(), a.settledMessages.Load()
}

// Admit takes room for a message whether there is any or not: whoever sent it
// was charged elsewhere.
func (a *Account) Admit(n int) {
	if a.Whole != nil {
		a.Whole.Admit(n)
	}
	a.add(n, 1)
}

// SetDown says whether the connection of a part is down. Only one goroutine at a time
// calls SetDown or that connection's Conn.
func (a *Account) SetDown(down bool) {
	var was int64
	if down {
		was = a.used.Or(downFlag)
	} else {
		was = a.used.And(^downFlag)
	}
	if was < 0 == down {
		return
	}
	bytes, messages := bytesOf(was)-int(a.shelved.Load()), messagesOf(was)
	if !down {
		bytes, messages = -bytes, -messages
	}
	a.Whole.hold(bytes, messages)
}

// Held is what waits for connections that are down or hold messages back: of a part all
// bytes and messages if its connection is down (SetDown), otherwise the bytes held back
// for ports of the peer, and no messages; of a whole the sums over its parts.
func (a *Account) Held() (bytes, messages int) {
	used := a.used.Load()
	switch {
	case a.Whole == nil: // for a moment a sum may lack what another goroutine is adding
		return int(max(0, a.heldBytes.Load())), int(max(0, a.heldMessages.Load()))
	case used < 0:
		return bytesOf(used), messagesOf(used)
	}
	return int(a.shelved.Load()), 0
}

// shelve adds n, which may be negative, to what is held back; nil is the core's own.
func (a *Account) shelve(n int) {
	if a == nil {
		return
	}
	a.shelved.Add(int64(n))
	if a.Whole != nil && a.used.Load() >= 0 {
		a.Whole.hold(n, 0)
	}
}

// Release gives back what was charged for messages that end without having
// been in the core's queue.
func (a *Account) Release(n, messages int) {
	a.Refund(n, messages)
	if w := a.whole(); w.Every {
		w.settledBytes.Add(uint64(n))
		w.settledMessages.Add(uint64(messages))
	}
}

// Watch adds n, which may be negative, to the number of goroutines that want
// to hear of room in the account: while it is not 0, every release puts the
// account on the list of TakeFreed. Watch first, look second, wait third.
func (a *Account) Watch(n int) { a.watchers.Add(int32(n)) }

// SetLimit sets the send buffer size in payload bytes, of at most 16 GiB: by the rule of
// HasRoomFor there may be half as much more in it.
func (a *Account) SetLimit(n int) { a.limit.Store(min(int64(n), maxLimit)) }

// Limit is the send buffer size in payload bytes.
func (a *Account) Limit() int { return int(a.limit.Load()) }

// Bytes is the payload queued or unacknowledged.
func (a *Account) Bytes() int { return bytesOf(a.used.Load()) }

// Messages is the number of messages queued or unacknowledged.
func (a *Account) Messages() int { return messagesOf(a.used.Load()) }

// Charge takes room for one message of n payload bytes. As in Linux it looks
// at what was there before: the last message may pass the limit, and one of
// 0 bytes is free but for this test. In a part it looks at the whole.
func (a *Account) Charge(n int) bool {
	w := a.whole()
	for {
		old := w.used.Load()
		if old>>countBits >= w.limit.Load() {
			return false
		}
		if w.used.CompareAndSwap(old, old+use(n, 1)) {
			break
		}
	}
	if w != a {
		a.add(n, 1)
	}
	return true
}

// ChargeFor is Charge by the rule of HasRoomFor. held is called where it matters.
func (a *Account) ChargeFor(n int, down bool, held func() int, own int) bool {
	return !down && a.Charge(n) || a.chargeFor(n, down, held, own)
}

func (a *Account) chargeFor(n int, down bool, held func() int, own int) bool {
	w := a.whole()
	for {
		old, h := w.used.Load(), 0
		if !down {
			h = held()
		}
		if !HasRoomFor(w.limit.Load(), old>>countBits, int64(h), int64(own), down) {
			return false
		}
		if w.used.CompareAndSwap(old, old+use(n, 1)) {
			break
		}
	}
	if w != a {
		a.add(n, 1)
	}
	return true
}

// HasRoomFor tells whether a buffer of limit bytes takes another message for a
// destination. used is what it has, held what of that is for destinations that are
// down or hold messages back, own what of it is for this one, down whether this one
// is down.
//
// As in Linux what was there before counts: the last message may pass a bound. A
// destination that is up may use all that the others leave, and what is held leaves it
// half of the buffer at least. One that is down may use half of what the others leave,
// and any one message where they leave something. So a buffer has at most one and a half
// limits, and the last message. Where destinations that are up hold back that much, any
// one message is taken while no other is under way: what full ports hold back for good
// must not stop the messages to other ports.
func HasRoomFor(limit, used, held, own int64, down bool) bool {
	if !down {
		return used <= held || used < limit+limit/2 && used-held < limit-min(held, limit/2)
	}
	return own < (limit-used+own+1)/2
}

// HasRoom tells whether Charge would succeed: the condition of POLLOUT.
func (a *Account) HasRoom() bool { return a.used.Load()>>countBits < a.limit.Load() }

// roomy tells whether there is room enough to wake a sender for: a quarter of
// the limit, or all there is to come. Waking it for each message acknowledged
// would make it send, and the transmitter write, one message at a time.
func (a *Account) roomy() bool {
	limit, used := a.limit.Load(), a.used.Load()
	return used>>countBits <= limit-limit/4 || used&(1<<countBits-1) == 0
}

// Refund gives back what Charge took for messages that were not accepted.
func (a *Account) Refund(n int, messages int) {
	if a.Whole != nil {
		a.Whole.Refund(n, messages)
	}
	a.add(-n, -messages)
}
