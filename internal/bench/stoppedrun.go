package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rds-go/rds/rds"
)

// Limits of a round of a Stopped work.
const (
	fillLimit = 60 * time.Second // time for the stopped application's memory to be full, and for what was kept to arrive
	glance    = 100 * time.Millisecond
)

// standstillRun is pairs of applications, of which the first's receiver is stopped and
// goes on again and again.
type standstillRun struct {
	c         *cell
	senders   children
	receivers children
	theirs    rds.Provider // attached to the server's daemon, to look at it
	held      uint64       // send_held before the first round
	out       Standstill

	running, stopped          []Result
	filling, slowest, slowall []float64
}

// standstill does the rounds of a Stopped work, all with the same processes.
func (r *Runner) standstill(ctx context.Context, c *cell) (row *Row, err error) {
	c.transport = RDS
	s := &standstillRun{c: c}
	end, err := s.start()
	defer func() {
		end()
		if cause := context.Cause(c.hard); cause != nil {
			row, err = nil, cause
		}
	}()
	if err != nil {
		return nil, err
	}
	for i := range r.Options.Repeat {
		if ctx.Err() != nil && i > 0 {
			break
		}
		limit := 2*(r.Options.Warmup+r.Options.Duration) + 3*fillLimit + stallLimit
		stalled := time.AfterFunc(limit, func() { c.lose(fmt.Errorf("the round has not ended after %v", limit)) })
		err = s.round()
		stalled.Stop()
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	if len(s.stopped) == 0 { // interrupted before there were figures
		return nil, nil
	}
	result := newRow(*c.work, map[Transport][]Result{RDS: s.stopped, Active: s.running})
	result.Standstill = s.summary()
	result.Finished = ctx.Err() == nil
	return &result, nil
}

// start starts the applications and has them stream. The function returned ends them,
// also after an error.
func (s *standstillRun) start() (end func(), err error) {
	c := s.c
	if s.theirs, err = rds.Dial(c.daemons.socket(serverSide)); err != nil {
		return func() {}, err
	}
	var ended func()
	s.senders, s.receivers, ended, err = c.pairs(c.work.Processes, c.work)
	end = func() { ended(); s.theirs.Close() }
	if err != nil {
		return end, err
	}
	st, err := s.look()
	s.held = st.held
	return end, err
}

// round measures with all running, and with the first receiver stopped, which then goes
// on until all that was accepted for it has arrived.
func (s *standstillRun) round() error {
	c := s.c
	c.runner.progress(c.work, Active)
	c.sleep(c.opts.Warmup)
	running, slowall, err := s.rates(func() { c.sleep(c.opts.Duration) })
	if err != nil {
		return err
	}
	if s.out.Rounds == 0 {
		private, shared := s.memory()
		s.out.Private.Before, s.out.Shared.Before = private, shared
	}
	c.runner.progress(c.work, RDS)
	if err := s.receivers[0].suspend(); err != nil {
		return err
	}
	filling, _, err := s.rates(func() { s.pass(c.opts.Duration) })
	if err != nil {
		return err
	}
	if err := s.until("its queue is still ready", func() (bool, error) {
		st, err := s.look()
		return st.NotReady || c.interrupted(), err
	}); err != nil {
		return err
	}
	before, err := s.settle()
	if err != nil {
		return err
	}
	stopped, slowest, err := s.rates(func() { s.pass(c.opts.Duration) })
	if err != nil {
		return err
	}
	after, err := s.look()
	if err != nil {
		return err
	}
	if err := s.goOn(); err != nil {
		return err
	}
	if c.interrupted() && (len(s.stopped) > 0 || !before.NotReady) {
		return nil // the figures of an interrupted round are not worth much
	}
	if !before.NotReady || !after.NotReady {
		return errors.New("the stopped application's queue was ready again before it went on")
	}
	s.out.Rounds++
	s.out.Grown = max(s.out.Grown, after.Backlog-before.Backlog)
	s.out.Queue = after.Queue
	s.running, s.stopped = append(s.running, running), append(s.stopped, stopped)
	s.filling = append(s.filling, filling.Rate/running.Rate)
	s.slowest, s.slowall = append(s.slowest, slowest), append(s.slowall, slowall)
	return nil
}

// goOn lets the stopped receiver go on and waits until it has what its sender's calls had
// been accepted for by then, and its queue is ready again.
func (s *standstillRun) goOn() error {
	told, err := s.senders[0].call(request{Op: opSnap})
	if err != nil {
		return err
	}
	if err := s.receivers[0].resume(); err != nil {
		return err
	}
	return s.until("what was accepted for it has not arrived", func() (bool, error) {
		r, err := s.receivers[0].call(request{Op: opSnap})
		if err != nil || r.Snap.Count < told.Snap.Count {
			return false, err
		}
		st, err := s.look()
		return !st.NotReady, err
	})
}

// settle waits until what was on its way to the stopped receiver has arrived.
func (s *standstillRun) settle() (last standstillLook, err error) {
	seen := -1
	err = s.until("what waits for it still grows", func() (bool, error) {
		s.pass(s.c.opts.Warmup)
		last, err = s.look()
		still := last.Backlog == seen
		seen = last.Backlog
		return still || s.c.interrupted(), err
	})
	return last, err
}

// pass lets d pass while the receiver is stopped, with an eye on the daemon's memory.
func (s *standstillRun) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !s.c.interrupted(); {
		s.c.sleep(min(time.Until(end), glance))
		s.peaks()
	}
}

// until asks again and again.
func (s *standstillRun) until(missing string, done func() (bool, error)) error {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for start := time.Now(); ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		s.peaks()
		if time.Since(start) > fillLimit {
			return fmt.Errorf("the stopped application: %s after %v", missing, fillLimit)
		}
		select {
		case <-tick.C:
		case <-s.c.hard.Done():
			return context.Cause(s.c.hard)
		}
	}
}

// memory is the physical memory of the server's daemon.
func (s *standstillRun) memory() (private, shared int64) {
	resident, shared := physicalMemory(s.c.daemons.side[serverSide].cmd.Process.Pid)
	return resident - shared, shared
}

func (s *standstillRun) peaks() {
	private, shared := s.memory()
	s.out.Private.Peak, s.out.Shared.Peak = max(s.out.Private.Peak, private), max(s.out.Shared.Peak, shared)
}

// standstillLook is what the daemons say of the application that is stopped.
type standstillLook struct {
	rds.SessionInfo
	held uint64 // send_held of the client's daemon
}

// look asks both daemons.
func (s *standstillRun) look() (standstillLook, error) {
	var l standstillLook
	ours, err := s.c.provider().Info()
	if err != nil {
		return l, err
	}
	theirs, err := s.theirs.Info()
	if err != nil {
		return l, err
	}
	pid := s.receivers[0].cmd.Process.Pid
	for _, x := range theirs.Sessions {
		if x.PID == pid {
			l.SessionInfo = x
		}
	}
	if l.PID != pid {
		return l, errors.New("its daemon does not know the application to be stopped")
	}
	congested := 0
	for _, k := range theirs.Sockets {
		if k.PID == pid && k.Congested {
			congested++
		}
	}
	o := &s.out
	o.Congested, o.Backlog, o.Arena = max(o.Congested, congested), max(o.Backlog, l.Backlog), l.ReceiveArena
	var e error
	l.held, err = counterOf(&ours, "send_held")
	if o.Overrun, e = counterOf(&theirs, "recv_drop_overrun"); o.Overrun > 0 {
		e = fmt.Errorf("the server's daemon has dropped %d messages", o.Overrun)
	}
	return l, errors.Join(err, e)
}

// counterOf is the value of a counter; it is an error if the provider does not count that.
func counterOf(info *rds.Info, name string) (uint64, error) {
	for _, c := range info.Counters {
		if c.Name == name {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("the provider does not count %s", name)
}

// rates measures all pairs but the first while f runs. It also returns the rate of the
// slowest of them, as part of their mean.
func (s *standstillRun) rates(f func()) (Result, float64, error) {
	begin, err := s.others()
	if err != nil {
		return Result{}, 0, err
	}
	f()
	end, err := s.others()
	if err != nil {
		return Result{}, 0, err
	}
	var res Result
	slowest := 0.0
	for i, b := range end.arrived {
		a := begin.arrived[i]
		n, t := b.Count-a.Count, (b.At - a.At).Seconds()
		res.Messages += n
		res.Seconds = max(res.Seconds, t)
		rate := float64(n) / t
		res.Rate += rate
		if i == 0 || rate < slowest {
			slowest = rate
		}
	}
	each := 1e3 * float64(max(res.Messages, 1))
	res.ClientCPU, res.ServerCPU = float64(end.client-begin.client)/each, float64(end.server-begin.server)/each
	res.MBPerSecond = res.Rate * float64(s.c.work.Size) / 1e6
	res.TCPConns = s.c.rdsConns()
	return res, slowest * float64(len(end.arrived)) / max(res.Rate, 1), nil
}

// othersLook is what all pairs but the first, and the daemons, have done so far.
type othersLook struct {
	arrived        []snapshot // snapshots of the receivers
	client, server time.Duration
}

func (s *standstillRun) others() (othersLook, error) {
	l := othersLook{client: s.c.daemonCPU(clientSide), server: s.c.daemonCPU(serverSide)}
	told, err := s.senders[1:].call(func(int) request { return request{Op: opSnap} })
	if err != nil {
		return l, err
	}
	heard, err := s.receivers[1:].call(func(int) request { return request{Op: opSnap} })
	for i := range heard {
		l.arrived = append(l.arrived, heard[i].Snap)
		l.client += told[i].Snap.CPU
		l.server += heard[i].Snap.CPU
	}
	return l, err
}

// finish ends the senders and has each receiver confirm that all they have sent arrived.
func (s *standstillRun) finish() error {
	told, err := s.senders.call(func(int) request { return request{Op: opStop} })
	if err != nil {
		return err
	}
	if _, err := s.receivers.call(func(i int) request { return request{Op: opConfirm, Count: told[i].Sent.Count} }); err != nil {
		return err
	}
	for _, r := range told {
		s.out.Total += r.Sent.Count
	}
	st, err := s.look()
	s.out.Held = st.held - s.held
	s.out.Private.After, s.out.Shared.After = s.memory()
	return err
}

// summary is what all rounds together come to.
func (s *standstillRun) summary() *Standstill {
	o := s.out
	for i := range s.stopped {
		r := s.stopped[i].Rate / s.running[i].Rate
		o.Highest = max(o.Highest, r)
		if i == 0 || r < o.Lowest {
			o.Lowest = r
		}
	}
	o.Filling, o.Slowest, o.SlowestActive = median(s.filling), median(s.slowest), median(s.slowall)
	return &o
}
