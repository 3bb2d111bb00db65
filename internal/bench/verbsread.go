package bench

import "github.com/rds-go/rds/transport/iwarp"

// block is which block the n-th read fetches: all in turn, in leaps.
func block(w *Work, n uint64) uint64 { return n * 7919 % uint64(w.blocks()) }

// fetches are the fetches under way, first in, first out.
type fetches struct {
	l      *loop
	w      *Work
	asked  uint64
	ended  uint64
	stamps []int64 // a ring
}

func newFetches(l *loop, w *Work) fetches { return fetches{l: l, w: w, stamps: make([]int64, w.Depth)} }

func (f *fetches) start(now int64) (n uint64) {
	n = f.asked
	f.stamps[n%uint64(len(f.stamps))] = now
	f.asked++
	return n
}

// end checks the answer to the oldest.
func (f *fetches) end(b []byte, now int64) error {
	n := f.ended
	f.ended++
	f.l.answered(f.stamps[n%uint64(len(f.stamps))], now)
	return checkMessage(b, f.w.Size, block(f.w, n))
}

// verbsFetcher fetches by RDMA Read.
type verbsFetcher struct {
	fetches
	v     *verbs
	reqs  []iwarp.WorkRequest // a ring: the n-th fetch has the n-th modulo its length
	comps []iwarp.Completion
}

func (c *cell) newVerbsFetcher(l *loop) (port, func(), error) {
	size := c.work.Size
	v, end, err := c.dialVerbs(c.work.Depth*size, nil)
	if err != nil {
		return nil, nil, err
	}
	vf := &verbsFetcher{fetches: newFetches(l, c.work), v: v, reqs: make([]iwarp.WorkRequest, c.work.Depth), comps: make([]iwarp.Completion, c.work.Depth)}
	for i := range vf.reqs {
		vf.reqs[i] = v.remoteRequest(iwarp.OpRead, i*size, 0, size)
		vf.reqs[i].Flags = iwarp.Signaled
	}
	return vf, end, nil
}

func (f *verbsFetcher) ask(n int, now int64) (int, error) {
	at := int(f.asked % uint64(len(f.reqs)))
	n = min(n, len(f.reqs)-at)
	for i := at; i < at+n; i++ {
		k := f.start(now)
		f.reqs[i].ID = k
		f.reqs[i].RemoteAddr = f.v.remote.addr + block(f.w, k)*uint64(f.w.Size)
	}
	_, err := f.v.qp.PostSend(f.reqs[at : at+n]...)
	return n, err
}

func (f *verbsFetcher) answers() (int, error) {
	k, err := f.v.take(f.v.send, f.comps)
	now := clock()
	for i := range f.comps[:k] {
		c := &f.comps[i]
		at := int(c.ID%uint64(len(f.reqs))) * f.w.Size
		if e := f.end(f.v.mem[at:at+int(c.Len)], now); e != nil {
			err = e
		}
	}
	return k, err
}

// streamFetcher is the baseline: the number of a block goes out, the block comes
// back. Requests leave when there is no answer to look at.
type streamFetcher struct {
	fetches
	s   *stream
	req [stampEnd]byte
}

func (c *cell) newStreamFetcher(l *loop) (port, func(), error) {
	s, end, err := c.dial()
	return &streamFetcher{fetches: newFetches(l, c.work), s: s}, end, err
}

func (f *streamFetcher) ask(n int, now int64) (int, error) {
	for range n {
		putNumber(f.req[:], block(f.w, f.start(now)))
		if err := f.s.send(f.req[:]); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (f *streamFetcher) answers() (int, error) {
	if f.s.r.Buffered() < len(f.s.in)+f.w.Size {
		if err := f.s.flush(); err != nil {
			return 0, err
		}
	}
	b, err := f.s.recv()
	if err != nil {
		return 0, err
	}
	return 1, f.end(b, clock())
}

// serveBlocks is its server: it writes its answers when there is no further
// request to read.
func serveBlocks(s *stream, w *Work) error {
	blocks := make([]byte, w.blocks()*w.Size)
	fillBlocks(blocks, w.Size)
	for {
		m, err := s.recv()
		if err != nil {
			return err
		}
		n := numberOf(m) % uint64(w.blocks())
		if err := s.send(blocks[n*uint64(w.Size):][:w.Size]); err != nil {
			return err
		}
		if s.r.Buffered() < len(s.in)+stampEnd {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}
