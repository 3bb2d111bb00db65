package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

var (
	// errAnswer: what came is not the answer to what was sent.
	errAnswer = errors.New("answer mismatch")
	// errLost: an initiator has ended.
	errLost = errors.New("the initiator has ended, or the server")
)

// sender plays ping-pong with all queues of the server.
type sender struct {
	*process
	mem        slots                     // a ping for each queue
	initiators map[uint64]*xrc.Initiator // by the tag of the server's domain
	games      []game                    // one for each queue

	mu     sync.Mutex         // guards the fields below
	gone   map[uint32]bool    // initiators that have ended
	fresh  bool               // gone has something new
	notice context.CancelFunc // ends the wait for completions
}

// game is ping-pong with one queue.
type game struct {
	ini        *xrc.Initiator
	queue      uint32 // number of the queue
	number     uint64 // number of pings so far
	left       uint64 // pings of this round that have no answer yet
	sending    bool   // the send of the last ping has not completed
	unanswered bool   // the last ping has no answer
	at         time.Time
	err        error // the game is over
}

// runSender is the process of a sender.
func runSender(ctx context.Context, job *xsrqJob, orders <-chan xsrqOrder, out *json.Encoder) error {
	// One ping to each queue and one answer are under way. Of initiators each has a power of two of requests.
	p, err := newProcess(ctx, job, 4*job.Sends)
	if err != nil {
		return err
	}
	s := &sender{process: p, initiators: make(map[uint64]*xrc.Initiator), games: make([]game, job.Sends), gone: make(map[uint32]bool), notice: func() {}}
	s.mem = slots{pd: p.pd, size: job.Size, each: min(job.Sends, maxRegion/job.Size)}
	for len(s.mem.regions)*s.mem.each < job.Sends {
		if err := s.mem.add(); err != nil {
			return err
		}
	}
	_, err = s.connect(ctx, 0, job.Sends)
	s.say(out, xsrqReport{}, err)
	go p.lost(ctx, func(initiator uint32) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gone[initiator], s.fresh = true, true
		s.notice()
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-orders:
			if o.Round != nil {
				r, err := s.play(ctx, o.Round)
				s.say(out, r, err)
				continue
			}
			err := s.route(ctx, o.Queues)
			s.say(out, xsrqReport{Initiators: len(s.initiators)}, err)
		}
	}
}

func (s *sender) say(out *json.Encoder, r xsrqReport, err error) {
	if err != nil {
		r.Error = err.Error()
	}
	_ = out.Encode(r)
}

// connect makes an initiator for the domain of a queue.
func (s *sender) connect(ctx context.Context, queue, sends int) (*xrc.Initiator, error) {
	step, cancel := s.step(ctx)
	defer cancel()
	service := s.Service + uint64(queue)
	i, err := s.Connect(step, xrc.InitiatorAttr{PD: s.pd, CQ: s.cq, Local: s.Local, Remote: s.Remote, Service: service, MaxSend: sends})
	if err != nil {
		return nil, fmt.Errorf("service %d: %w", service, reason(step, err))
	}
	s.initiators[i.Queue().Tag] = i
	return i, nil
}

// step bounds one wait for the server.
func (s *sender) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.Timeout, errTimeout)
}

// route finds or makes the initiators by which the queues are reached: there is one for each domain. All
// services of the domain join it, so that its target lives as long as one of them.
func (s *sender) route(ctx context.Context, queues []objects.Answer) error {
	count := make(map[uint64]int)
	for _, q := range queues {
		count[q.Tag]++
	}
	for i, q := range queues {
		ini := s.initiators[q.Tag]
		var err error
		if ini == nil {
			ini, err = s.connect(ctx, i, count[q.Tag])
		} else if i > 0 {
			step, cancel := s.step(ctx)
			if _, err = ini.Join(step, s.Service+uint64(i)); err != nil {
				err = fmt.Errorf("service %d: %w", s.Service+uint64(i), reason(step, err))
			}
			cancel()
		}
		if err != nil {
			return err
		}
		s.games[i].ini, s.games[i].queue = ini, q.SRQN
	}
	return nil
}

// ping sends the next message to a queue.
func (s *sender) ping(queue int, kind xsrqKind) {
	g := &s.games[queue]
	g.number++
	b := s.mem.at(queue)
	xsrqHeader{kind: kind, service: s.Answers, answer: s.srq.Num(), queue: uint32(queue), number: g.number, host: s.Local}.put(b)
	pattern(b[xsrqHeaderLen:], int(g.number)+queue+s.Index*maxXsrqQueues)
	g.sending, g.unanswered, g.at = true, true, time.Now()
	if _, err := g.ini.PostSend(iwarp.WorkRequest{ID: uint64(queue), Flags: iwarp.Signaled, Queue: g.queue, SGE: []iwarp.SGE{s.mem.sge(queue, s.Size)}}); err != nil {
		g.err = fmt.Errorf("ping to queue %d: %w", queue, err)
	}
}

// play plays a round: it is over when the queues of the round have had their pings, or have failed. The error
// is one of those.
func (s *sender) play(ctx context.Context, r *xsrqRound) (report xsrqReport, err error) {
	times := newTimesOf(r.Last)
	for i := range s.games[:r.Last] {
		if g := &s.games[i]; i >= r.First || r.Endless {
			g.left = r.Count
			if g.err == nil && !g.unanswered { // else it is stopped
				s.ping(i, r.Kind)
			}
		}
	}
	playing := func() bool {
		for i := range s.games[r.First:r.Last] {
			if g := &s.games[r.First+i]; g.err == nil && g.left > 0 {
				return true
			}
		}
		return false
	}
	var list [64]iwarp.Completion
	for playing() && ctx.Err() == nil {
		n := s.next(ctx, list[:])
		for j := range list[:n] {
			i, err := s.completed(&list[j], times)
			if err != nil && i < 0 {
				return report, err
			}
			g := &s.games[i]
			if err != nil {
				g.err = err
			}
			if g.err != nil || g.sending || g.unanswered || i >= r.Last {
				continue
			}
			if g.left--; g.left > 0 || i < r.First {
				s.ping(i, r.Kind)
			}
		}
	}
	report.Errors = make(map[int]string)
	for i, h := range times {
		b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return report, err
		}
		report.Times = append(report.Times, b)
		g := &s.games[i]
		if g.unanswered {
			report.Unanswered = append(report.Unanswered, i)
		}
		if g.err != nil {
			report.Errors[i] = g.err.Error()
		}
	}
	for i := range s.games[:r.Last] {
		if err := s.games[i].err; err != nil {
			return report, err
		}
	}
	return report, nil
}

// next waits for completions. Games that will have none fail.
func (s *sender) next(ctx context.Context, list []iwarp.Completion) int {
	for ctx.Err() == nil {
		if n := s.cq.Poll(list); n > 0 {
			return n
		}
		step, cancel := s.step(ctx)
		s.mu.Lock()
		s.notice = cancel
		fresh := s.fresh
		s.fresh = false
		s.mu.Unlock()
		if fresh {
			s.fail(func(g *game) bool { return s.gone[g.ini.Number()] }, errLost)
			cancel()
			return 0
		}
		err := s.cq.Wait(step)
		timeout := context.Cause(step) == errTimeout
		cancel()
		switch {
		case err == nil:
		case timeout:
			s.fail(func(g *game) bool { return g.unanswered || g.sending }, errTimeout)
			return 0
		case step.Err() == nil || !errors.Is(err, context.Canceled):
			s.fail(func(*game) bool { return true }, err) // the daemon has ended
			return 0
		}
	}
	return 0
}

// fail ends games.
func (s *sender) fail(which func(*game) bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.games {
		if g := &s.games[i]; g.err == nil && which(g) {
			g.err = fmt.Errorf("queue %d: %w", i, err)
		}
	}
}

// completed takes the completion of a ping or of an answer, and returns which queue it is about, -1 if of none.
func (s *sender) completed(c *iwarp.Completion, times []*hdrhistogram.Histogram) (queue int, err error) {
	if c.Initiator != 0 {
		queue = int(c.ID)
		s.games[queue].sending = false
		if c.Status != iwarp.Success {
			err = fmt.Errorf("ping to queue %d: %v", queue, c.Status)
		}
		return queue, err
	}
	if c.Status != iwarp.Success {
		return -1, fmt.Errorf("answer: %v", c.Status)
	}
	b := s.received(c)
	h, ok := parseXsrq(b)
	if !ok || int64(h.queue) >= int64(len(s.games)) {
		return -1, errAnswer
	}
	queue = int(h.queue)
	g := &s.games[queue]
	if !g.unanswered || !answers(b, s.mem.at(queue)) {
		return queue, fmt.Errorf("queue %d: %w", queue, errAnswer)
	}
	g.unanswered = false
	if queue < len(times) {
		_ = times[queue].RecordValue(min(max(time.Since(g.at).Nanoseconds(), 1), time.Minute.Nanoseconds()))
	}
	return queue, s.post(c.ID)
}
