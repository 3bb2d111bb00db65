package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sender is the sending side of a work in a process of its own: the sockets of
// a Mux, or floods of one-way messages.
type sender struct {
	run   *muxRun
	open  ends
	socks []*muxSocket

	workers []*atomicWorker // Atomic
	flooded atomic.Uint64   // messages of floods, accepted

	start time.Time // start of the measured phase
}

// sent is what a sender has to tell.
type sent struct {
	Seconds float64                `json:"seconds"`
	Count   uint64                 `json:"count"`           // requests answered, operations, messages accepted
	Total   uint64                 `json:"total,omitempty"` // Atomic: changes, since the start
	Hist    *hdrhistogram.Snapshot `json:"hist"`
}

// startSender starts the work of c. What ends it too early goes to fail.
func startSender(c *cell, first int, fail func(error)) (*sender, error) {
	s := &sender{run: newMuxRun(c)}
	var err error
	switch c.work.Kind {
	case OneWay, Stopped:
		err = s.flood(fail)
	case Atomic:
		err = s.startAtomics(first, fail)
	default:
		s.socks, err = s.run.start(&s.open, first, fail)
	}
	if err != nil {
		s.open.close()
		return nil, err
	}
	return s, nil
}

// flood sends to each destination, from a socket of its own, until the sender stops.
func (s *sender) flood(fail func(error)) error {
	w := s.run.c.work
	for _, to := range s.run.c.addrs {
		sock, end, err := s.run.c.bind()
		if err != nil {
			return err
		}
		s.open.add(end)
		if w.Kind == Stopped {
			sock.SetLinger(fillLimit) // all messages sent are to arrive
		}
		b := newBatchSender(sock, w, to)
		s.run.wg.Go(func() {
			for n := uint64(0); s.run.phase.Load() != phaseStop; n += uint64(w.Batch) {
				if err := b.burst(n, w.Batch); err != nil {
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
	s.run.phase.Store(phaseMeasure)
}

// stop ends the sender, after the replies that are outstanding, of which one counts.
func (s *sender) stop() (*sent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if len(s.socks)+len(s.workers) > 0 {
		s.run.counted(ctx)
	}
	out := &sent{Seconds: time.Since(s.start).Seconds()}
	s.run.phase.Store(phaseStop)
	late := context.AfterFunc(ctx, s.open.close)
	s.run.wg.Wait()
	if !late() {
		return nil, fmt.Errorf("replies are missing after %v", drainLimit)
	}
	s.open.close()
	h := newSmallHist()
	out.Count = sum(s.socks, h) + s.flooded.Load()
	for _, k := range s.workers {
		out.Count += k.count
		out.Total += k.total
	}
	out.Hist = h.Export()
	return out, nil
}
