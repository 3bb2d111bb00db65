package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/rds"
)

// Phases of a mux run, in order.
const (
	phaseWarm int32 = iota
	phaseMeasure
	phaseStop // no more requests; outstanding ones are awaited
)

// drainLimit bounds the wait for outstanding replies at the end.
const drainLimit = 10 * time.Second

// muxRun is what the sockets of a run share.
type muxRun struct {
	c     *cell
	phase atomic.Int32
	first chan struct{} // cap 1: has a token when something was counted in the measured phase
	wg    sync.WaitGroup

	floods sync.WaitGroup // goroutines of sockets whose peers have stopped; they end when their sockets are closed

	mu  sync.Mutex // guards err
	err error      // the first error
}

func newMuxRun(c *cell) *muxRun { return &muxRun{c: c, first: make(chan struct{}, 1)} }

// counts is called for the first of what a socket counts in the measured phase.
func (r *muxRun) counts() {
	select {
	case r.first <- struct{}{}:
	default:
	}
}

// counted waits until something was counted, which may be after the measured time: a run
// without any figure is none. It ends with ctx.
func (r *muxRun) counted(ctx context.Context) {
	select {
	case <-r.first:
	case <-ctx.Done():
	}
}

func (r *muxRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// muxSocket is a client socket: one goroutine that keeps Depth requests
// outstanding and goes round the server's sockets.
type muxSocket struct {
	run   *muxRun
	s     *rds.Socket
	w     *Work
	dests []netip.AddrPort
	next  int // index of the next destination
	turn  int // requests sent
	ms    []rds.Message
	out   []rds.Outgoing
	bufs  [][]byte
	v     *verifier // Stress
	fault Fault     // damage yet to be done

	hist  *hdrhistogram.Histogram // latencies of the measured phase; read when the goroutine has ended
	count atomic.Int64            // replies of the measured phase
	_     [64]byte                // the next socket's counters are another CPU's
}

func newMuxSocket(r *muxRun, s *rds.Socket, i int) *muxSocket {
	w := r.c.work
	m := &muxSocket{run: r, s: s, w: w, dests: r.c.addrs, next: i % len(r.c.addrs), hist: newSmallHist(),
		ms: make([]rds.Message, w.Batch), out: make([]rds.Outgoing, w.Batch), bufs: make([][]byte, w.Batch)}
	for i := range m.bufs {
		m.bufs[i] = make([]byte, w.maxSize())
	}
	if w.Kind == Stress {
		m.v = newVerifier(s.LocalAddrPort(), kindReply)
		if i == 0 {
			m.fault = w.Fault
		}
	}
	return m
}

// faultAfter is the request that is damaged: late enough to be in the middle.
const faultAfter = 20

// request prepares out[i].
func (m *muxSocket) request(i int, now int64) {
	to := m.dests[m.next]
	if m.next++; m.next == len(m.dests) {
		m.next = 0
	}
	b := m.bufs[i][:m.w.Size]
	if m.v != nil {
		b = m.bufs[i][:m.w.Sizes[m.turn%len(m.w.Sizes)]]
		if m.fault == FaultSkip && m.turn >= faultAfter {
			m.v.skip(to)
			m.fault = FaultNone
		}
		m.v.fill(b, to, kindRequest)
		if m.fault == FaultCorrupt && m.turn >= faultAfter && len(b) > stressHeader {
			b[len(b)-1] ^= 1
			m.fault = FaultNone
		}
	}
	m.turn++
	putStamp(b, now)
	m.out[i].To, m.out[i].Data = to, b
}

func (m *muxSocket) send(n int, now int64) error {
	for i := range n {
		m.request(i, now)
	}
	_, err := m.s.SendBatch(context.Background(), m.out[:n])
	return err
}

// work sends and receives until the run stops and all replies are in.
func (m *muxSocket) work() error {
	outstanding := 0
	for outstanding < m.w.Depth {
		n := min(m.w.Depth-outstanding, m.w.Batch)
		if err := m.send(n, clock()); err != nil {
			return err
		}
		outstanding += n
	}
	for outstanding > 0 {
		n, err := m.s.RecvBatch(context.Background(), m.ms)
		if err != nil {
			return err
		}
		now, phase := clock(), m.run.phase.Load()
		if err := m.take(m.ms[:n], now, phase == phaseMeasure); err != nil {
			return err
		}
		outstanding -= n
		if phase == phaseStop {
			continue
		}
		if err := m.send(n, now); err != nil {
			return err
		}
		outstanding += n
	}
	return nil
}

// flood sends until the socket is closed, to a peer that receives nothing: soon
// it is congested and each send waits.
func (m *muxSocket) flood() {
	out := rds.Outgoing{To: m.dests[0], Data: make([]byte, floodSize)}
	for m.s.SendMessage(context.Background(), &out) == nil {
	}
}

// take checks and releases replies.
func (m *muxSocket) take(ms []rds.Message, now int64, measure bool) error {
	var err error
	for i := range ms {
		b := ms[i].Data
		switch {
		case m.v != nil:
			if e := m.v.check(ms[i].From, b); e != nil {
				err = errors.Join(err, e)
			}
		case len(b) != m.w.Reply:
			err = fmt.Errorf("reply of %d bytes, not %d", len(b), m.w.Reply)
		}
		if measure && err == nil {
			m.hist.RecordValue(min(now-stampOf(b), maxLatency))
		}
		ms[i].Release()
	}
	if n := int64(len(ms)); measure && m.count.Add(n) == n {
		m.run.counts()
	}
	return err
}

// mux runs all sockets to all over the cell's transport.
func (c *cell) mux() (Result, error) {
	r := newMuxRun(c)
	if c.transport == TCP {
		return c.muxTCP(r)
	}
	var open ends
	defer open.close()
	// One socket's error ends the run for all.
	lost, lose := context.WithCancel(c.hard)
	defer lose()
	socks, err := r.start(&open, 0, func(err error) { r.fail(err); lose() })
	if err != nil {
		return Result{}, err
	}
	return r.measure(lost, func() (uint64, *hdrhistogram.Histogram) {
		h := newHist()
		return sum(socks, h), h
	}, open.close)
}

// start has the client's sockets work, the first of them beginning with
// destination first. What ends one too early goes to fail.
func (r *muxRun) start(open *ends, first int, fail func(error)) ([]*muxSocket, error) {
	socks := make([]*muxSocket, r.c.work.Sockets)
	stopped := 0 // pairs of which one end receives nothing
	if r.c.work.Processes == 0 {
		stopped = r.c.work.Stopped
	}
	for i := range socks {
		s, end, err := r.c.bind()
		if err != nil {
			return nil, err
		}
		open.add(end)
		socks[i] = newMuxSocket(r, s, first+i)
		if stopped > 0 {
			socks[i].dests, socks[i].next = r.c.addrs[i:i+1], 0
		}
	}
	floods := socks[len(socks)-stopped:]
	socks = socks[:len(socks)-stopped]
	for _, m := range floods {
		if r.c.transport == RDS {
			r.floods.Go(m.flood)
		}
	}
	for _, m := range socks {
		r.wg.Go(func() {
			if err := m.work(); err != nil {
				fail(err)
			}
		})
	}
	return socks, nil
}

// sum adds up what sockets have counted that have ended.
func sum(socks []*muxSocket, h *hdrhistogram.Histogram) (n uint64) {
	for _, m := range socks {
		n += uint64(m.count.Load())
		h.Merge(m.hist)
	}
	return n
}

// measure lets the sockets work for the warm-up and the measured time, stops
// them and makes the result. sum is called when they have ended. closeAll
// unblocks them if they do not end by themselves.
func (r *muxRun) measure(lost context.Context, sum func() (uint64, *hdrhistogram.Histogram), closeAll func()) (Result, error) {
	c := r.c
	run := *c
	run.hard = lost
	run.sleep(c.opts.Warmup)
	m, err := c.begin()
	var elapsed, cpu time.Duration
	var server snapshot
	conns := 0
	if err == nil {
		r.phase.Store(phaseMeasure)
		run.sleep(c.opts.Duration)
		r.counted(lost)
		r.phase.Store(phaseStop)
		elapsed = time.Since(m.start)
		cpu = c.cpu() - m.cpu
		server, err = c.ask(request{Op: opSnap})
		conns = c.work.Sockets * c.work.Peers
		if c.transport != TCP {
			conns = c.rdsConns()
		}
	}
	r.phase.Store(phaseStop)
	ended := make(chan struct{})
	go func() { r.wg.Wait(); close(ended) }()
	if c.transport != TCP && lost.Err() == nil && err == nil {
		limit := time.NewTimer(drainLimit)
		defer limit.Stop()
		select {
		case <-ended:
		case <-lost.Done():
		case <-limit.C:
			err = fmt.Errorf("replies are missing after %v", drainLimit)
		}
	}
	r.mu.Lock()
	if r.err != nil { // errors of closing, below, do not count
		err = r.err
	}
	r.mu.Unlock()
	closeAll()
	<-ended
	r.floods.Wait()
	n, h := sum()
	if err != nil {
		return Result{}, err
	}
	res := m.result(elapsed, cpu, server, n, c.meanBytes())
	res.hist, res.Latency, res.TCPConns = h, latencyOf(h), conns
	return res, nil
}

// meanBytes is the payload of a request and its reply.
func (c *cell) meanBytes() int {
	if len(c.work.Sizes) == 0 {
		return c.work.Size + c.work.Reply
	}
	sum := 0
	for _, n := range c.work.Sizes {
		sum += n
	}
	return sum/len(c.work.Sizes) + c.work.Reply
}
