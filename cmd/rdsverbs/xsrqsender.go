package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
)

// errAnswer: what came is not the answer to what was sent.
var errAnswer = errors.New("answer mismatch")

// errRestarted: a service is of another life of the server than it was just before.
var errRestarted = errors.New("the server has restarted")

// sender is a process that plays ping-pong with all queues of the server. One
// goroutine uses it at a time.
type sender struct {
	*process
	c        *xsrqClient
	index    int
	mem      *iwarp.MR               // a ping for each queue
	channels map[uint64]*xrc.Channel // channels by the tag of the server's domain
	games    []game                  // one for each queue
}

// game is ping-pong with one queue.
type game struct {
	ch         *xrc.Channel
	number     uint64 // number of pings so far
	sending    bool   // the send of the last ping has not completed
	unanswered bool   // the last ping has no answer
	at         time.Time
}

func newSender(c *xsrqClient, index, domain int) (*sender, error) {
	n, size := c.o.queues, int(c.o.size)
	// No more than one answer of each queue is under way.
	p, err := c.h.newProcess(processAttr{name: fmt.Sprint("sender ", index), domain: domain, receives: n, size: size, sends: n})
	if err != nil {
		return nil, err
	}
	s := &sender{process: p, c: c, index: index, channels: make(map[uint64]*xrc.Channel), games: make([]game, n)}
	s.mem, err = s.pd.RegMR(make([]byte, n*size), 0, 0)
	return s, err
}

// connect makes an initiator for the domain of a queue.
func (s *sender) connect(ctx context.Context, queue int) error {
	ctx, cancel := s.c.step(ctx)
	defer cancel()
	service := s.c.o.service + uint64(queue)
	ch, err := s.c.h.Connect(ctx, s.Session, xrc.ChannelAttr{PD: s.pd, CQ: s.cq, Local: s.c.h.addr, Remote: s.c.remote,
		Service: service, MaxSend: s.c.o.queues})
	if err != nil {
		return fmt.Errorf("service %d: %w", service, reason(ctx, err))
	}
	s.channels[ch.Queue().Tag] = ch
	return nil
}

// route finds or makes the initiator by which a queue is reached: there is one for
// each domain.
func (s *sender) route(ctx context.Context, queue int) error {
	tag := s.c.queues[queue].Tag
	if s.channels[tag] == nil {
		if err := s.connect(ctx, queue); err != nil {
			return err
		}
	}
	if s.games[queue].ch = s.channels[tag]; s.games[queue].ch == nil {
		return fmt.Errorf("service %d: %w", s.c.o.service+uint64(queue), errRestarted)
	}
	return nil
}

// ping sends the next message to a queue.
func (s *sender) ping(queue int, kind xsrqKind) error {
	g, size := &s.games[queue], int(s.c.o.size)
	g.number++
	b := s.message(queue)
	xsrqHeader{kind: kind, service: s.c.service, answer: s.process.number, queue: uint32(queue), number: g.number}.put(b)
	pattern(b[xsrqHeaderLen:], int(g.number)+queue+s.index*maxXsrqQueues)
	g.sending, g.unanswered, g.at = true, true, time.Now()
	_, err := g.ch.PostSend(iwarp.WorkRequest{ID: uint64(queue), Flags: iwarp.Signaled, Queue: s.c.queues[queue].SRQN,
		SGE: []iwarp.SGE{s.mem.SGE(queue*size, size)}})
	return err
}

func (s *sender) message(queue int) []byte {
	size := int(s.c.o.size)
	return s.mem.Bytes()[queue*size:][:size]
}

// play plays a round: it is over when the queues of the round have had their pings.
func (s *sender) play(ctx context.Context, r *round) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for _, ch := range s.channels {
		wg.Go(func() {
			select {
			case <-ch.Done():
				cancel(ch.Err())
			case <-ctx.Done():
			}
		})
	}
	left := make([]uint64, r.last)
	for i := range left {
		if i < r.first && !r.endless {
			continue
		}
		left[i] = r.count
		if err := s.ping(i, r.kind); err != nil {
			return err
		}
	}
	var list [64]iwarp.Completion
	for playing := r.last - r.first; playing > 0; {
		n, err := s.next(ctx, list[:])
		if err != nil {
			return err
		}
		for j := range list[:n] {
			i, err := s.completed(&list[j], r)
			if err != nil {
				return err
			}
			if g := &s.games[i]; g.sending || g.unanswered {
				continue
			}
			if i >= r.first {
				if left[i]--; left[i] == 0 {
					playing--
					continue
				}
			}
			if err := s.ping(i, r.kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// next waits for completions.
func (s *sender) next(ctx context.Context, list []iwarp.Completion) (int, error) {
	for {
		if n := s.cq.Poll(list); n > 0 {
			return n, nil
		}
		step, cancel := s.c.step(ctx)
		err := s.cq.Wait(step)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		default:
			return 0, reason(step, err)
		}
	}
}

// completed takes the completion of a ping or of an answer, and returns which queue
// it is about.
func (s *sender) completed(c *iwarp.Completion, r *round) (queue int, err error) {
	if c.Initiator != 0 {
		queue = int(c.ID)
		s.games[queue].sending = false
		if c.Status != iwarp.Success {
			err = fmt.Errorf("ping to queue %d: %v", queue, c.Status)
			if why := s.games[queue].ch.Err(); why != nil {
				err = fmt.Errorf("%w: %w", err, why)
			}
		}
		return queue, err
	}
	if c.Status != iwarp.Success {
		return 0, fmt.Errorf("answer: %v", c.Status)
	}
	b := s.received(c)
	h, ok := parseXsrq(b)
	if !ok || int64(h.queue) >= int64(len(s.games)) {
		return 0, errAnswer
	}
	queue = int(h.queue)
	g := &s.games[queue]
	if !g.unanswered || !answers(b, s.message(queue)) {
		return 0, fmt.Errorf("queue %d: %w", queue, errAnswer)
	}
	g.unanswered = false
	r.tallies[queue].add(time.Since(g.at))
	return queue, s.post(c.ID)
}
