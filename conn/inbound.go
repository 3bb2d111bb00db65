package conn

import "github.com/rds-go/rds/internal/wire"

// Generations is the number of generations of a peer whose receive sequence is remembered
// beside each other: an impostor that claims other ones does not make the honest peer's
// sequence forgotten.
const Generations = 4

// Received is the receive sequence of one generation of the peer on one path.
type Received struct {
	Generation uint32 // 0: the peer states none
	Next       uint64 // one more than the last sequence number taken
	Taken      uint64 // number of messages for sockets taken
}

// Inbound is the receive sequence of one path (net/rds/recv.c,
// cp_next_rx_seq), for each of the peer's last generations. It survives the path's links.
// It belongs to whoever receives on the path, one goroutine at a time; the owner's lock is
// not needed.
//
// A link begins without a generation. What comes on the link is judged by the sequence of
// the generation that messages for sockets came from last, until the peer states its
// generation: then what the link has brought counts for the stated generation, and the
// sequence of the other generation is what it was when the link began.
type Inbound struct {
	cur    Received                  // sequence that messages are judged by
	base   Received                  // cur when the link began
	others [Generations - 1]Received // sequences of other generations, the last one used first; Taken 0: none
	link   uint64                    // one more than the last sequence number seen on the link; 0 before the first message
	stated bool                      // the peer has stated its generation on the link
	silent bool                      // the link has ended, or brings more than can wait, without such a statement
	loose  uint64                    // one more than the last number taken on links that ended without such a statement; 0: none
}

// InboundFrom is the sequence of a path of which more is known: the first one of list is
// that of the generation that messages came from last.
func InboundFrom(list ...Received) Inbound {
	var in Inbound
	for i, r := range list[:min(len(list), Generations)] {
		r.Taken = max(1, r.Taken)
		if i == 0 {
			in.cur = r
		} else {
			in.others[i-1] = r
		}
	}
	in.base = in.cur
	return in
}

// Next is one more than the last sequence number accepted.
func (in *Inbound) Next() uint64 { return in.cur.Next }

// Generation is the generation by whose sequence messages are judged.
func (in *Inbound) Generation() uint32 { return in.cur.Generation }

// Loose is one more than the last sequence number taken on links that ended before the peer
// had stated its generation, 0 if there is none: what comes again may be that, whatever
// generation the peer states then. It is no generation's, and whoever goes on from
// InboundFrom has to be told of it by Loosen.
func (in *Inbound) Loose() uint64 {
	if !in.stated && in.cur.Taken > in.base.Taken && in.cur.Next > timeNumbers {
		return max(in.loose, in.cur.Next)
	}
	return in.loose
}

// Loosen has the sequence go on from what Loose has said of the one before.
func (in *Inbound) Loosen(next uint64) { in.loose = max(in.loose, next) }

// Begin says that what follows comes on a new link.
func (in *Inbound) Begin() {
	in.loose = in.Loose()
	if in.cur.Taken == 0 && in.others[0].Taken > 0 { // the last link's generation has sent nothing
		in.cur = in.others[0]
		copy(in.others[:], in.others[1:])
		in.others[len(in.others)-1] = Received{}
	}
	in.base, in.link, in.stated, in.silent = in.cur, 0, false, false
}

// State says that the link's peer has stated its generation, 0 if it has stated that it
// has none. Only the first statement on a link counts.
func (in *Inbound) State(generation uint32) {
	if in.stated {
		return
	}
	in.stated = true
	if generation == in.cur.Generation {
		return
	}
	last, found := in.base, Received{Generation: generation}
	brought := in.cur.Taken - in.base.Taken
	for i := range in.others {
		if r := &in.others[i]; r.Taken > 0 && r.Generation == generation {
			found = *r
			copy(in.others[i:], in.others[i+1:])
			in.others[len(in.others)-1] = Received{}
			break
		}
	}
	found.Next = max(found.Next, in.link)
	found.Taken += brought
	in.cur = found
	if last.Taken > 0 {
		in.keep(last)
	}
}

// keep puts the sequence of a generation before the others. If there are too many the one
// with the fewest messages goes: that of the honest peer has most.
func (in *Inbound) keep(r Received) {
	drop := len(in.others) - 1
	if in.others[drop].Taken > 0 {
		for i := range in.others {
			if in.others[i].Taken < in.others[drop].Taken {
				drop = i
			}
		}
		if r.Taken < in.others[drop].Taken {
			return
		}
	}
	copy(in.others[1:drop+1], in.others[:drop])
	in.others[0] = r
}

// Others calls f for the sequences of the other generations, the last one used first.
func (in *Inbound) Others(f func(r Received)) {
	for _, r := range in.others {
		if r.Taken > 0 {
			f(r)
		}
	}
}

// Doubtful tells whether it takes the peer's generation to judge a message: before that is
// stated on the link, if the sequences of the generations disagree about the message.
// expected is the generation that the peer has stated last, on whatever path.
func (in *Inbound) Doubtful(h *wire.Header, expected uint32) bool {
	if in.stated || in.silent || !h.Retransmitted() {
		return false
	}
	old, known := h.Sequence < in.cur.Next, expected == in.cur.Generation
	for i := range in.others {
		r := &in.others[i]
		if r.Taken == 0 {
			break
		}
		if h.Sequence < r.Next != old {
			return true
		}
		known = known || r.Generation == expected
	}
	return !known && old && in.cur.Generation != 0 && in.cur.Taken > 0
}

// Unstated says that nobody waits any more for the peer to state its generation on the
// link. From then on a message that any generation's sequence takes for old is old, if its
// number is derived from the time, as ours are: such numbers ascend from one generation to
// the next.
func (in *Inbound) Unstated() { in.silent = !in.stated }

// timeNumbers is below all numbers that are derived from the time, and above all of a peer
// that counts from 1.
const timeNumbers = 1 << 60

// old tells whether a message that was sent again has been taken before.
func (in *Inbound) old(number uint64) bool {
	if number < in.cur.Next {
		return true
	}
	if number < timeNumbers {
		return false
	}
	if number < in.loose {
		return true
	}
	if in.silent {
		for i := range in.others {
			if in.others[i].Taken > 0 && number < in.others[i].Next {
				return true
			}
		}
	}
	return false
}

// Accept applies the sequence rule to a message that has wholly arrived: one
// that is flagged RETRANSMITTED and numbered below the next expected was
// delivered before and must be dropped. Any other is taken and sets what is
// expected next: gaps are legal, and so is going back without the flag, which
// is how a restarted Linux peer appears. Congestion maps do not pass here.
func (in *Inbound) Accept(h *wire.Header) bool {
	in.link = h.Sequence + 1
	if h.Retransmitted() && in.old(h.Sequence) {
		return false
	}
	if n := h.Sequence + 1; in.cur.Generation == 0 || n > in.cur.Next { // within a stated generation numbers ascend
		in.cur.Next = n
	}
	return true
}

// Taken is how many messages of the generation went to sockets.
func (in *Inbound) Taken() uint64 { return in.cur.Taken }

// Took says that n of the accepted messages went to sockets. A generation that none came
// from is not remembered.
func (in *Inbound) Took(n uint64) {
	in.cur.Taken += n
	if in.stated { // what comes again has come before this
		in.loose = 0
	}
}
