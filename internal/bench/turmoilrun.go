package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// faultEvery is the mean time between faults.
const faultEvery = 300 * time.Millisecond

// startTurmoil starts the client sockets of one process.
func (s *sender) startTurmoil(first int, fail func(error)) error {
	for i := range s.run.c.work.Sockets {
		sock, end, err := s.run.c.bind()
		if err != nil {
			return err
		}
		s.open.add(end)
		t, err := newTurmoilSocket(s.run, sock, first+i)
		if err != nil {
			return err
		}
		s.turmoil = append(s.turmoil, t)
	}
	for _, t := range s.turmoil {
		s.run.wg.Go(func() {
			if err := t.work(); err != nil && context.Cause(s.run.c.hard) == nil {
				fail(err)
			}
		})
	}
	return nil
}

// turmoil is a Stress with operations, and faults if there are to be any.
func (c *cell) turmoil() (Result, error) {
	k, end, err := c.crew()
	if err != nil {
		return Result{}, err
	}
	defer end()
	c.sleep(c.opts.Warmup)
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	before, err := k.measure(c)
	if err != nil {
		return Result{}, err
	}
	cuts, err := c.faults(k)
	if err != nil {
		return Result{}, err
	}
	after, all, err := k.stop(c)
	if err != nil {
		return Result{}, err
	}
	server, err := c.ask(request{Op: opSnap})
	if err != nil {
		return Result{}, err
	}
	res := k.result(all, after.CPU-before.CPU, server.CPU-m.server.CPU)
	res.Account = &account{Cuts: cuts}
	for _, s := range all {
		res.Account.add(s.Account)
	}
	res.TCPConns = c.rdsConns()
	if c.daemons == nil && c.work.Processes > 0 {
		res.TCPConns = c.work.Processes
	}
	return res, res.Account.balance(server)
}

// balance compares what the client knows with what the server has seen.
func (a *account) balance(server snapshot) error {
	within := func(what string, n, sure, unsure uint64) error {
		if n < sure || n > sure+unsure {
			return fmt.Errorf("verify: %d %s, and there should be %d, or up to %d more", n, what, sure, unsure)
		}
		return nil
	}
	return errors.Join(
		within("messages received", server.Count, a.Messages-a.Unsure, a.Unsure),
		within("replies", a.Replies+a.Late, server.Count-min(a.Unsure, server.Count), a.Unsure), // replies to unsure messages are not waited for
		within("additions to shared words", server.Sum, a.Adds, a.UnsureAdd))
}

// faults waits for the measured time, and cuts connections in it.
func (c *cell) faults(k *crew) (cuts uint64, err error) {
	if !c.work.Faults {
		c.sleep(c.opts.Duration)
		return 0, nil
	}
	rng := rand.New(rand.NewPCG(c.work.Seed, 2))
	for end := time.Now().Add(c.opts.Duration); time.Now().Before(end) && !c.interrupted(); {
		c.sleep(min(time.Until(end), faultEvery/2+time.Duration(rng.Int64N(int64(faultEvery)))))
		n, err := c.cut(k, rng)
		if err != nil {
			return cuts, err
		}
		cuts += n
	}
	return cuts, nil
}

// cut cuts the connections of one of the processes that have any.
func (c *cell) cut(k *crew, rng *rand.Rand) (uint64, error) {
	ask := func(call func(request) (response, error)) (uint64, error) {
		r, err := call(request{Op: opCut})
		return r.Snap.Count, err
	}
	switch {
	case c.daemons != nil:
		return ask(c.daemons.side[rng.IntN(2)].call)
	case rng.IntN(2) == 0:
		return ask(c.control.call)
	case k.local == nil:
		return ask(k.apps[rng.IntN(len(k.apps))].call)
	}
	n, err := cutConnections()
	return uint64(n), err
}

// turmoilSentence says what was verified.
func (row *Row) turmoilSentence() string {
	a := row.RDS.Account
	s := fmt.Sprintf("%s: %d messages and %d replies, %d writes, %d reads (%s in all), %d atomics, %d refused as they had to be",
		row.Title, a.Messages, a.Replies+a.Late, a.Writes, a.Reads, FormatSize(int(a.Bytes)), a.Atomics, a.Refused)
	if row.Work.soaks() {
		return s + row.soakSentence()
	}
	if a.Cuts > 0 {
		s += fmt.Sprintf("; %d connections cut, %d exchanges lost with them and reported", a.Cuts, a.Dropped)
	}
	return s + "; everything verified"
}
