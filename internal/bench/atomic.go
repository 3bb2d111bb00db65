package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// The operations of an Atomic work.
const (
	OpAdd  Op = "fetch-add"
	OpSwap Op = "compare-swap"
)

// Bounds of an Atomic work.
const (
	maxWords       = rds.MaxMessage / wordSize
	maxAtomicDepth = 16 // outstanding operations of a worker: what a connection answers at a time
	wordSize       = 8
)

// atomicWorks is what rdsbench atomic does: verbs and sockets, one word and many,
// workers of this process and of several.
func (o *Options) atomicWorks() []Work {
	var works []Work
	for _, verbs := range []bool{true, false} {
		for _, words := range []int{1, o.Words} {
			for _, op := range []Op{OpAdd, OpSwap} {
				works = append(works, Work{Kind: Atomic, Op: op, Verbs: verbs, Words: words, Workers: o.Workers, Depth: o.Depth, Batch: 1, Size: wordSize})
			}
		}
		for _, op := range []Op{OpAdd, OpSwap} {
			if o.Processes > 0 {
				works = append(works, Work{Kind: Atomic, Op: op, Verbs: verbs, Words: 1, Workers: o.Workers, Processes: o.Processes, Depth: o.Depth, Batch: 1, Size: wordSize})
			}
		}
	}
	return works
}

// checkAtomic refuses works out of bounds.
func (w *Work) checkAtomic() bool {
	return (w.Op == OpAdd || w.Op == OpSwap) && w.Words >= 1 && w.Words <= maxWords && w.Size == wordSize &&
		w.Depth >= 1 && w.Depth <= maxAtomicDepth && w.Workers >= 1 && w.Workers <= 256
}

// atomics changes words of the server's memory.
type atomics interface {
	// post begins an operation of a lane: add 1 to a word, or replace old by the
	// next number.
	post(lane, word int, old uint64) error
	// next waits for an operation to end and returns its lane, and what the word
	// was before.
	next() (lane int, before uint64, err error)
}

// atomicWorker has an operation outstanding in each of its lanes. Words only grow,
// one by one, so that their sum is the number of changes that all have made.
type atomicWorker struct {
	*loop
	w     *Work
	a     atomics
	rng   *rand.Rand
	free  []int      // lanes without an operation
	words []int      // index of the word that each lane is at
	last  [][]uint64 // last known value of each word, by lane
}

func newAtomicWorker(s *sender, a atomics, seed int) *atomicWorker {
	w := s.c.work
	k := &atomicWorker{loop: s.newLoop(nil), w: w, a: a, rng: rand.New(rand.NewPCG(uint64(seed), 1)), words: make([]int, w.Depth)}
	k.port = k
	for i := range w.Depth {
		k.free, k.last = append(k.free, i), append(k.last, make([]uint64, w.Words))
	}
	return k
}

func (k *atomicWorker) ask(int, int64) (int, error) {
	last := len(k.free) - 1
	lane := k.free[last]
	k.free = k.free[:last]
	word := k.rng.IntN(k.w.Words)
	k.words[lane] = word
	return 1, k.a.post(lane, word, k.last[lane][word])
}

func (k *atomicWorker) answers() (int, error) {
	lane, before, err := k.a.next()
	if err == nil {
		err = k.end(lane, before)
	}
	k.free = append(k.free, lane)
	k.answered(0, 0)
	return 1, err
}

// end takes what a lane has got. The lane has done nothing to the word since it
// knew it to be last, but others may have.
func (k *atomicWorker) end(lane int, before uint64) error {
	last := &k.last[lane][k.words[lane]]
	if before < *last {
		return fmt.Errorf("%s: word %d was %d, and was %d earlier", k.w.Op, k.words[lane], before, *last)
	}
	if k.w.Op == OpAdd || before == *last {
		k.total++
		before++
	}
	*last = before
	return nil
}

// startAtomics starts the workers of one process.
func (s *sender) startAtomics(first int) error {
	for i := range s.c.work.Workers {
		var (
			a   atomics
			end func()
			err error
		)
		if s.c.work.Verbs {
			a, end, err = s.c.newVerbsAtomics()
		} else {
			a, end, err = s.c.newSocketAtomics()
		}
		if err != nil {
			return err
		}
		s.open.add(end)
		s.loops = append(s.loops, newAtomicWorker(s, a, first+i).loop)
	}
	return nil
}

// socketAtomics are those of a socket.
type socketAtomics struct {
	s       *rds.Socket
	w       *Work
	to      netip.AddrPort
	cookie  rds.Cookie
	results []uint64
	ops     []rds.Atomic
}

func (c *cell) newSocketAtomics() (*socketAtomics, func(), error) {
	s, end, err := c.bind()
	if err != nil {
		return nil, nil, err
	}
	n := c.work.Depth
	return &socketAtomics{s: s, w: c.work, to: c.addrs[0], cookie: rds.Cookie(c.keys[0]), results: make([]uint64, n), ops: make([]rds.Atomic, n)}, end, nil
}

func (a *socketAtomics) post(lane, word int, old uint64) error {
	op := &a.ops[lane]
	*op = rds.Atomic{Cookie: a.cookie, Offset: uint64(word * wordSize), Kind: rds.FetchAdd, Add: 1, Result: &a.results[lane], Silent: true}
	if a.w.Op == OpSwap {
		op.Kind, op.Compare, op.Swap = rds.CompareSwap, old, old+1
	}
	return a.s.SendMessage(context.Background(), &rds.Outgoing{To: a.to, Atomic: op, Notify: true, Token: uint64(lane)})
}

func (a *socketAtomics) next() (int, uint64, error) {
	m, err := a.s.Recv(context.Background())
	if err != nil {
		return 0, 0, err
	}
	defer m.Release()
	if m.Kind != rds.KindStatus || m.Status != rds.StatusSuccess || m.Token >= uint64(len(a.results)) {
		return 0, 0, fmt.Errorf("%s: %v", a.w.Op, &m)
	}
	return int(m.Token), a.results[m.Token], nil
}
