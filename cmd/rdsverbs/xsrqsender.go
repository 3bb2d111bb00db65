package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

var (
	// errAnswer: what came is not the answer to what was sent.
	errAnswer = errors.New("answer mismatch")
	// errLost: the initiator has ended.
	errLost = errors.New("the initiator has ended, or the server")
	// errOthersDone: there is nothing more to wait for.
	errOthersDone = errors.New("the other queues have had their pings")
)

// gameReport is what came of the game with one queue.
type gameReport struct {
	Times      []byte // histogram of round trips
	Unanswered bool   `json:",omitempty"`
	Error      string `json:",omitempty"`
}

// sender plays ping-pong with all queues of the server, by one initiator.
type sender struct {
	*process
	ini   *xrc.Initiator
	games []game // one for each queue
}

// game is ping-pong with one queue.
type game struct {
	queue uint32 // number of the queue
	news  chan outcome
}

// outcome is what became of a ping: it was delivered, or is answered.
type outcome struct {
	answer []byte // nil: the ping is delivered
	err    error
}

// runSender is the process of a sender.
func runSender(ctx context.Context, job *xsrqJob, domain *os.File, out *json.Encoder) error {
	p, err := newProcess(ctx, job, domain, 2*job.Queues, 2*job.Queues)
	if err != nil {
		return err
	}
	s := &sender{process: p}
	queues, err := s.connect(ctx)
	if err != nil {
		return err
	}
	_ = out.Encode(xsrqReport{Queues: queues})
	life, end := context.WithCancelCause(ctx)
	go s.take(ctx, end)
	_ = out.Encode(s.play(life))
	<-ctx.Done()
	return nil
}

// connect makes the initiator for the domain of the server's queues. All their services join it, so that its target
// lives as long as one of them.
func (s *sender) connect(ctx context.Context) (queues []uint32, err error) {
	for i := range s.Queues {
		step, cancel := s.step(ctx)
		service := s.Service + uint64(i)
		var number uint32
		if i == 0 {
			s.ini, err = s.Connect(step, xrc.InitiatorAttr{PD: s.pd, CQ: s.cq, Local: s.Local, Remote: s.Remote, Service: service, MaxSend: s.Queues})
			if err == nil {
				number = s.ini.Queue().SRQN
			}
		} else {
			a, e := s.ini.Join(step, service)
			number, err = a.SRQN, e
		}
		cancel()
		if err != nil {
			return queues, fmt.Errorf("service %d: %w", service, reason(step, err))
		}
		queues = append(queues, number)
		s.games = append(s.games, game{queue: number, news: make(chan outcome, 2)})
	}
	return queues, nil
}

// take gives the games what completes. It ends their life when nothing will any more.
func (s *sender) take(ctx context.Context, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		select {
		case list, ok := <-s.done:
			for i := range list {
				s.completed(&list[i])
			}
			if !ok {
				end(errLost)
				return
			}
		case <-s.ended:
			end(errLost)
		case <-ctx.Done():
		}
	}
}

// completed takes the completion of a ping or of an answer.
func (s *sender) completed(c *iwarp.Completion) {
	queue, o := c.ID, outcome{}
	switch {
	case c.Initiator == 0:
		b := s.slot(int(c.ID))
		h, ok := parseXsrq(b[:c.Len])
		if queue = uint64(h.Queue); c.Status != iwarp.Success || !ok || queue >= uint64(len(s.games)) {
			return // the game waits in vain
		}
		o.answer = bytes.Clone(b[:c.Len])
		_ = s.post(int(c.ID)) // there was room for it before
	case c.Status != iwarp.Success:
		o.err = fmt.Errorf("ping to queue %d: %v", queue, c.Status)
	}
	select {
	case s.games[queue].news <- o:
	default: // more answers than pings
	}
}

// play plays with all queues at once.
func (s *sender) play(life context.Context) (report xsrqReport) {
	report.Games = make([]gameReport, s.Queues)
	life, over := context.WithCancelCause(life)
	var all, counts sync.WaitGroup
	for i := range report.Games {
		play := func() {
			times, err := newTimes(), error(nil)
			for n := uint64(0); n < s.Count && err == nil; n++ {
				err = s.ping(life, i, n, times)
			}
			g := &report.Games[i]
			if g.Unanswered = err == errOthersDone; err != nil && !g.Unanswered {
				g.Error = err.Error()
			}
			g.Times, _ = times.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		}
		if i < s.Stop {
			all.Go(play)
		} else {
			counts.Go(play)
		}
	}
	counts.Wait()
	over(errOthersDone)
	all.Wait()
	for _, g := range report.Games {
		report.Error = cmp.Or(report.Error, g.Error)
	}
	return report
}

// ping sends message n to a queue, and waits until it is delivered and answered.
func (s *sender) ping(ctx context.Context, i int, n uint64, times *hdrhistogram.Histogram) error {
	kind := kindPing
	if i >= s.Stop {
		step, cancel := s.step(ctx)
		defer cancel()
		ctx = step
	} else if s.Index == 0 && n == s.Count/2 {
		kind = kindStop
	}
	g, slot := &s.games[i], s.Queues+i // the first slots are for answers
	b := s.slot(slot)
	xsrqHeader{Kind: kind, Service: s.Answers, Answer: s.srq.Num(), Queue: uint32(i), Number: n, Host: s.Local.As16()}.put(b)
	pattern(b[xsrqHeaderLen:], int(n)+i+s.Index*maxXsrqQueues)
	at := time.Now()
	if _, err := s.ini.PostSend(iwarp.WorkRequest{ID: uint64(i), Flags: iwarp.Signaled, Queue: g.queue, SGE: s.sge(slot, s.Size)}); err != nil {
		return fmt.Errorf("ping to queue %d: %w", i, err)
	}
	for range 2 {
		select {
		case o := <-g.news:
			switch {
			case o.err != nil:
				return o.err
			case o.answer == nil:
			case !answers(o.answer, b):
				return fmt.Errorf("queue %d: %w", i, errAnswer)
			default:
				_ = times.RecordValue(min(max(time.Since(at).Nanoseconds(), 1), time.Minute.Nanoseconds()))
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); err != errOthersDone {
				return fmt.Errorf("queue %d: %w", i, err)
			}
			return errOthersDone
		}
	}
	return nil
}
