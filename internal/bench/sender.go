package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Phases of a sender, in order.
const (
	phaseWarm int32 = iota
	phaseMeasure
	phaseStop // no more requests; outstanding ones are awaited
)

// drainLimit bounds the wait for outstanding replies at the end.
const drainLimit = 10 * time.Second

// sender is the sending side of a work that counts there: the sockets of a Mux, workers
// of an Atomic, or floods of one-way messages.
type sender struct {
	c       *cell
	phase   atomic.Int32
	first   chan struct{}  // cap 1: has a token when something was counted in the measured phase
	wg      sync.WaitGroup // goroutines that end after phaseStop
	bound   sync.WaitGroup // goroutines that end when their sockets are closed
	quit    chan struct{}  // closed with phaseStop
	lost    chan struct{}  // closed when something has failed
	open    ends
	loops   []*loop
	flooded atomic.Uint64 // messages of floods, accepted
	start   time.Time     // start of the measured phase
}

// sent is what a sender has to tell.
type sent struct {
	Seconds float64                `json:"seconds"`
	Count   uint64                 `json:"count"`           // requests answered, operations, messages accepted
	Total   uint64                 `json:"total,omitempty"` // Atomic: changes, since the start
	Hist    *hdrhistogram.Snapshot `json:"hist,omitempty"`
}

// startSender starts the work of c. What ends it too early goes to fail.
func startSender(c *cell, first int, fail func(error)) (*sender, error) {
	s := &sender{c: c, first: make(chan struct{}, 1), quit: make(chan struct{}), lost: make(chan struct{})}
	var once sync.Once
	tell := fail
	fail = func(err error) { once.Do(func() { close(s.lost) }); tell(err) }
	var err error
	switch {
	case c.work.Kind == OneWay || c.work.Kind == Stopped:
		err = s.flood(fail)
	case c.work.Kind == Atomic:
		err = s.startAtomics(first)
	case c.work.Kind != Mux && c.work.Kind != Stress:
		err = s.startLoop()
	case c.transport == TCP:
		err = s.startMuxTCP()
	default:
		err = s.startMux(first)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	for _, l := range s.loops {
		s.wg.Go(func() {
			if err := l.work(); err != nil {
				fail(err)
			}
		})
	}
	return s, nil
}

// flood sends to each destination, from a socket of its own, until the sender stops.
func (s *sender) flood(fail func(error)) error {
	w := s.c.work
	for _, to := range s.c.addrs {
		sock, end, err := s.c.bind()
		if err != nil {
			return err
		}
		s.open.add(end)
		if w.Kind == Stopped {
			sock.SetLinger(fillLimit) // all messages sent are to arrive
		}
		b := newRDSEnd(sock, w, to)
		s.wg.Go(func() {
			for n := uint64(0); s.phase.Load() != phaseStop; n += uint64(w.Batch) {
				if err := b.send(n, w.Batch); err != nil {
					fail(err)
					return
				}
				s.flooded.Add(uint64(w.Batch))
			}
		})
	}
	return nil
}

func (s *sender) measure() {
	s.start = time.Now()
	s.phase.Store(phaseMeasure)
}

// stop ends the sender, after the replies that are outstanding. A run without any figure
// is none: the measured time lasts until there is one.
func (s *sender) stop() (*sent, error) {
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	if len(s.loops) > 0 {
		select {
		case <-s.first:
		case <-s.lost:
		case <-limit.C:
		}
	}
	out := &sent{Seconds: time.Since(s.start).Seconds()}
	s.end()
	late := time.AfterFunc(drainLimit, s.open.close)
	s.wg.Wait()
	if !late.Stop() {
		return nil, fmt.Errorf("replies are missing after %v", drainLimit)
	}
	s.close()
	out.Count = s.flooded.Load()
	var h *hdrhistogram.Histogram
	for _, l := range s.loops {
		out.Count += l.count
		out.Total += l.total
		if h == nil {
			h = l.hist
		} else {
			h.Merge(l.hist)
		}
	}
	if h != nil {
		out.Hist = h.Export()
	}
	return out, nil
}

// end begins phaseStop.
func (s *sender) end() {
	if s.phase.Swap(phaseStop) != phaseStop {
		close(s.quit)
	}
}

// wait waits for d, or phaseStop.
func (s *sender) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.quit:
	}
}

// close ends all goroutines by closing their sockets.
func (s *sender) close() {
	s.end()
	s.open.close()
	s.wg.Wait()
	s.bound.Wait()
}

// crowd is a work whose senders count: those of this process, or several that it has started.
func (c *cell) crowd() (res Result, err error) {
	w := c.work
	senders, end, err := c.senders()
	if err != nil {
		return res, err
	}
	defer end()
	c.sleep(c.opts.Warmup)
	m, err := c.begin()
	if err != nil {
		return res, err
	}
	ask := func(op string) (sum snapshot, all []response, err error) {
		all, err = senders.call(func(int) request { return request{Op: op} })
		sum.CPU = c.daemonCPU(clientSide)
		for i := range all {
			sum.add(&all[i].Snap)
		}
		return sum, all, err
	}
	before, _, err := ask(opMeasure)
	if err != nil {
		return res, err
	}
	c.sleep(c.opts.Duration)
	conns := c.conns()
	after, all, err := ask(opStop)
	if err != nil {
		return res, err
	}
	server, err := c.ask(request{Op: opSnap})
	if err != nil {
		return res, err
	}
	conns = max(conns, c.conns()) // a session may have begun to count late
	h := newHist()
	for i := range all { // each sender has its own time, for they begin and stop one after the other
		s := all[i].Sent
		res.Messages += s.Count
		res.Total += s.Total
		res.Seconds = max(res.Seconds, s.Seconds)
		res.Rate += float64(s.Count) / s.Seconds
		if s.Hist != nil {
			h.Merge(hdrhistogram.Import(s.Hist))
		}
	}
	if w.Kind == Atomic && server.Sum != res.Total {
		return res, fmt.Errorf("the words add up to %d, and %d changes were made", server.Sum, res.Total)
	}
	each := 1e3 * float64(max(res.Messages, 1))
	res.ClientCPU, res.ServerCPU = float64(after.CPU-before.CPU)/each, float64(server.CPU-m.server.CPU)/each
	res.MBPerSecond = res.Rate * float64(w.meanBytes()) / 1e6
	res.hist, res.Latency, res.TCPConns = h, latencyOf(h), conns
	return res, nil
}

// conns counts the TCP connections of a crowd.
func (c *cell) conns() int {
	w := c.work
	switch {
	case w.Verbs:
		return w.Workers * max(w.Processes, 1)
	case w.Kind == RDMA, c.transport == TCP:
		return max(w.Sockets*w.Peers, 1)
	case c.daemons == nil && w.Processes > 0: // nodes, each with one
		return w.Processes
	}
	return c.rdsConns()
}

// senders starts those who send to the server.
func (c *cell) senders() (_ children, end func(), err error) {
	w := c.work
	var all children
	if w.Processes > 0 {
		if all, end, err = c.applications(clientSide, w.Processes); err != nil {
			return nil, nil, err
		}
	} else {
		if err := w.descriptors(c.transport); err != nil {
			return nil, nil, err
		}
		k := c.runner.local(c.ip, &session{providers: c.providers, hello: *c.hello, lent: true})
		k.watch(c.lose)
		stop := context.AfterFunc(c.hard, k.kill)
		all, end = children{k}, func() { stop(); k.end() }
	}
	if w.Stopped > 0 && w.Processes > 0 {
		all, err = c.stopReceivers(all)
	}
	if err == nil {
		_, err = all.call(func(i int) request {
			q := request{Op: opSend, Work: w, Transport: c.transport, Addrs: c.addrs, Keys: c.keys, First: i * max(w.Workers, w.Sockets)}
			if w.Stopped > 0 && w.Processes > 0 { // pairs
				q.Addrs, q.First = c.addrs[i*w.Peers:(i+1)*w.Peers], 0
			}
			return q
		})
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return all, end, nil
}

// stopReceivers stops the last of the server's processes and has their senders flood them,
// but over Active, where they are left alone. It returns the other senders.
func (c *cell) stopReceivers(senders children) (children, error) {
	n := len(c.servers) - c.work.Stopped
	running, stopped := c.servers[:n], c.servers[n:]
	c.servers = running
	if c.transport == Active {
		return senders[:n], nil
	}
	for _, r := range stopped {
		if err := r.suspend(); err != nil {
			return nil, err
		}
	}
	_, err := senders[n:].call(func(i int) request {
		return request{Op: opSend, Work: floodWork, Addrs: c.addrs[(n+i)*c.work.Peers:][:c.work.Peers]}
	})
	return senders[:n], err
}
