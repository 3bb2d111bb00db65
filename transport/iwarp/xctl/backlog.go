package xctl

import "math/bits"

// Backlog is what one side of a connection has to say on Control and has not
// sent. The zero Backlog is empty.
//
// Its order is not that of the calls. Errors go before acknowledgements, which
// are cumulative and would otherwise cover what has failed: WRERR, NAK and REFUSED,
// each in the order of the calls; then PONG, PING, HOME, SRQ and FULL;
// then CREDIT, RETURN, GRANT and WRACK. So a PONG that answers a PING also tells that the
// peer has seen all of the errors that were added before the PING. Of a CREDIT or SRQ
// record only the latest of each queue is kept, of a HOME or FULL the latest of each tag,
// of PING, PONG, RETURN, GRANT and WRACK the latest of all. RDERR and RESUME have their place
// among responses and messages, and do not wait here.
//
// It is bounded by the queues of the connection, by Limit, and by the errors that
// the [ErrorRate] of the connection lets through.
type Backlog struct {
	writeErrors inOrder[WriteError]
	naks        inOrder[NAK]
	refused     inOrder[Refused]
	srqs        perKey[SRQN, SRQ]
	homes       perKey[uint32, Home]
	fulls       perKey[uint32, Full]
	credits     perKey[SRQN, Credit]
	ret         lone[Return]
	grant       lone[Grant]
	ping        lone[Ping]
	pong        lone[Pong]
	ack         lone[WriteAck]

	has  uint16 // bit i: there are records in the i-th of lists()
	lazy bool   // no CREDIT is urgent
}

// Bits of Backlog.has, in the order in which the records leave: that of lists.
const (
	hasWriteError = 1 << iota
	hasNAK
	hasRefused
	hasPong
	hasPing
	hasHome
	hasSRQ
	hasFull
	hasWriteAck // before hasCredit: a message completes behind the Writes that it builds on
	hasCredit
	hasReturn
	hasGrant
)

func (b *Backlog) lists() [12]pending {
	return [...]pending{
		&b.writeErrors, &b.naks, &b.refused, &b.pong, &b.ping, &b.homes, &b.srqs, &b.fulls,
		&b.ack, &b.credits, &b.ret, &b.grant,
	}
}

// Limit is how many errors of one type wait at most. A peer that provokes more
// and does not read is not worth its connection.
const Limit = 8192

// NAK adds a refusal. It is false at Limit.
func (b *Backlog) NAK(n NAK) bool { b.has |= hasNAK; return b.naks.push(Limit, n) }

// RefusedLimit is how many REFUSED records wait at most: one burst that is received may
// refuse every second of its messages.
const RefusedLimit = 8 * Limit

// Refused adds messages that were not delivered, to the last record if they follow its
// messages. It is false at RefusedLimit.
func (b *Backlog) Refused(r Refused) bool {
	b.has |= hasRefused
	if list := b.refused.All(); len(list) > 0 {
		if last := &list[len(list)-1]; last.Code == r.Code && last.First+uint64(last.Count) == r.First && last.Count+r.Count > last.Count {
			last.Count += r.Count
			return true
		}
	}
	return b.refused.push(RefusedLimit, r)
}

// WriteError adds a failed Write. It is false at Limit.
func (b *Backlog) WriteError(e WriteError) bool {
	b.has |= hasWriteError
	return b.writeErrors.push(Limit, e)
}

// Credit sets the CREDIT of a queue.
func (b *Backlog) Credit(c Credit) { b.has |= hasCredit; b.lazy = false; b.credits.set(c) }

// CreditLater is Credit for one that may wait for company.
func (b *Backlog) CreditLater(c Credit) {
	b.lazy = b.lazy || b.has&hasCredit == 0
	b.has |= hasCredit
	b.credits.set(c)
}

// MayWait reports whether there is nothing to say that may not wait for company.
func (b *Backlog) MayWait() bool { return b.has == 0 || b.has == hasCredit && b.lazy }

// SRQ sets the announced state of a queue.
func (b *Backlog) SRQ(s SRQ) { b.has |= hasSRQ; b.srqs.set(s) }

// Home sets the queue of a tag. It is false at Limit.
func (b *Backlog) Home(h Home) bool {
	if b.homes.waiting() >= Limit {
		return false
	}
	b.has |= hasHome
	b.homes.set(h)
	return true
}

// Full sets whether there is room for a tag. The program bounds the tags.
func (b *Backlog) Full(f Full) { b.has |= hasFull; b.fulls.set(f) }

// Grant sets the GRANT.
func (b *Backlog) Grant(g Grant) { b.has |= hasGrant; b.grant.v = g }

// Return sets the RETURN.
func (b *Backlog) Return(r Return) { b.has |= hasReturn; b.ret.v = r }

// Ping sets the PING.
func (b *Backlog) Ping(p Ping) { b.has |= hasPing; b.ping.v = p }

// Pings reports whether a PING waits.
func (b *Backlog) Pings() bool { return b.has&hasPing != 0 }

// Pong sets the PONG.
func (b *Backlog) Pong(p Pong) { b.has |= hasPong; b.pong.v = p }

// WriteAck sets the WRACK.
func (b *Backlog) WriteAck(a WriteAck) { b.has |= hasWriteAck; b.ack.v = a }

// Empty reports whether there is nothing to say.
func (b *Backlog) Empty() bool { return b.has == 0 }

// AppendTo appends one control message of at most limit octets, or MaxMessage if
// that is less, to dst and takes its records out of the backlog. limit is what a
// segment holds behind its header, at least 24. Nothing is appended if the
// backlog is empty.
func (b *Backlog) AppendTo(dst []byte, limit int) []byte {
	end := len(dst) + min(limit, MaxMessage)
	lists := b.lists()
	for b.has != 0 {
		i := bits.TrailingZeros16(b.has)
		// What does not fit stops what comes after it: the order matters.
		var all bool
		if dst, all = lists[i].appendTo(dst, end); !all {
			break
		}
		if b.has &^= 1 << i; b.has == 0 {
			b.lazy = false
		}
	}
	return dst
}
