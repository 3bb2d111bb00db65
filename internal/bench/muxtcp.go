package bench

import (
	"context"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// errDescriptors says that a mux baseline needs more connections than this
// process may open.
type errDescriptors struct{ need, have int }

func (e errDescriptors) Error() string {
	return fmt.Sprintf("no baseline: %d connections need more than the %d descriptors allowed (ulimit -n)", e.need, e.have)
}

// tcpFlow is the connection of one pair of sockets.
type tcpFlow struct {
	s    *stream
	hist *hdrhistogram.Histogram // latencies; used by the flow's reader
	n    int64                   // replies of the measured phase; used by the flow's reader
}

// muxTCP does what a program without multiplexing does: a connection for each
// pair, a goroutine for each connection's replies and one for each sending
// socket, whose tokens bound what is outstanding.
func (c *cell) muxTCP(r *muxRun) (Result, error) {
	w := c.work
	if need, have := w.Sockets*w.Peers, descriptorLimit(); need+64 > have {
		return Result{}, errDescriptors{need, have}
	}
	var open ends
	defer open.close()
	flows := make([]*tcpFlow, w.Sockets*w.Peers)
	for i := range flows {
		s, end, err := c.dial()
		if err != nil {
			return Result{}, err
		}
		open.add(end)
		flows[i] = &tcpFlow{s: s, hist: newSmallHist()}
	}
	lost, lose := context.WithCancel(c.hard)
	defer lose()
	quit := make(chan struct{}) // closed with the connections: senders wait for no more tokens
	for i := range w.Sockets {
		mine := flows[i*w.Peers : (i+1)*w.Peers]
		tokens := make(chan struct{}, w.Depth)
		for range w.Depth {
			tokens <- struct{}{}
		}
		for _, f := range mine {
			r.wg.Go(func() { r.tcpReplies(f, tokens, lose) })
		}
		r.wg.Go(func() { r.tcpRequests(mine, i, tokens, quit, lose) })
	}
	return r.measure(lost, func() (n uint64, h *hdrhistogram.Histogram) {
		h = newHist()
		for _, f := range flows {
			n += uint64(f.n)
			h.Merge(f.hist)
		}
		return n, h
	}, func() { close(quit); open.close() })
}

func (r *muxRun) tcpReplies(f *tcpFlow, tokens chan struct{}, lose func()) {
	for {
		b, err := f.s.recv()
		if err == nil && len(b) != r.c.work.Reply {
			err = fmt.Errorf("reply of %d bytes, not %d", len(b), r.c.work.Reply)
		}
		if err != nil {
			if r.phase.Load() != phaseStop {
				r.fail(err)
				lose()
			}
			return
		}
		if r.phase.Load() == phaseMeasure {
			f.hist.RecordValue(min(clock()-stampOf(b), maxLatency))
			if f.n++; f.n == 1 {
				r.counts()
			}
		}
		tokens <- struct{}{} // does not block: there are no more tokens than room
	}
}

func (r *muxRun) tcpRequests(flows []*tcpFlow, first int, tokens, quit chan struct{}, lose func()) {
	m := make([]byte, r.c.work.Size)
	for i := first; r.phase.Load() != phaseStop; i++ {
		select {
		case <-tokens:
		case <-quit:
			return
		}
		putStamp(m, clock())
		s := flows[i%len(flows)].s
		err := s.send(m)
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			if r.phase.Load() != phaseStop {
				r.fail(err)
				lose()
			}
			return
		}
	}
}
