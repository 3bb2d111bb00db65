package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rds-go/rds/rds"
)

// abortLimit is how long an interrupted run may go on before its sockets are
// closed.
const abortLimit = 5 * time.Second

// Limits of how much longer than its warm-up and measured time a run may take
// before it counts as lost: in all, and for each socket or application.
const (
	stallLimit = 20 * time.Second
	socketTime = 10 * time.Millisecond
)

// Runner is the active process.
type Runner struct {
	Options Options
	// Affinity pins this process to the client's or the server's CPU of a
	// Pin, or with PinNone gives all CPUs back.
	Affinity func(pin Pin, server bool) error
	// Program is the executable that is also the server; empty means this one.
	Program string
	// Progress, if not nil, is told what runs now: the number of the run, how
	// many there are, and its name.
	Progress func(run, runs int, what string)
	// Config is the base of the node's settings, for tests.
	Config rds.Config

	child   *child   // the server; nil if it is one of --server
	daemons *daemons // the daemons of provider rdsd, unless --server has them
	pin     Pin      // how daemons, child and this process are pinned
	pinned  bool     // this process is pinned
	run     int
	runs    int
}

// ErrInterrupted is returned with the report of what there is when ctx ended.
var ErrInterrupted = errors.New("interrupted")

// Run does the works one after the other. The report is not nil even with an
// error. When ctx ends, the run under way is cut short, and counts.
func (r *Runner) Run(ctx context.Context, works []Work) (*Report, error) {
	rep := newReport(&r.Options)
	for i := range works {
		r.runs += r.Options.Repeat * len(r.Options.transports(&works[i]))
	}
	var err error
	for i := range works {
		var row *Row
		row, err = r.work(ctx, &works[i])
		if row != nil {
			rep.Rows = append(rep.Rows, *row)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", works[i].Title(), err)
			break
		}
		if ctx.Err() != nil {
			err = ErrInterrupted
			break
		}
	}
	return rep, errors.Join(err, r.endProcesses())
}

// endProcesses ends what was started and gives this process its CPUs back.
func (r *Runner) endProcesses() error {
	var err error
	if r.pinned {
		err = r.Affinity(PinNone, false)
		r.pinned = false
	}
	if r.child != nil {
		err = errors.Join(err, r.child.end())
		r.child = nil
	}
	if r.daemons != nil {
		err = errors.Join(err, r.daemons.end())
		r.daemons = nil
	}
	return err
}

// prepare makes sure that a server with this pin runs, and the daemons if
// there are to be any, and pins this process too.
func (r *Runner) prepare(pin Pin) error {
	pin = cmp.Or(pin, PinNone)
	if r.pin != pin {
		if err := r.endProcesses(); err != nil {
			return err
		}
		r.pin = pin
	}
	if r.Options.Server == "" && r.child == nil {
		var err error
		if r.Options.Provider == rds.ProviderDaemon {
			if r.daemons, err = r.startDaemons(); err != nil {
				return err
			}
		}
		if r.child, err = r.start("server", serverSide, r.serverFlags()...); err != nil {
			return err
		}
	}
	return r.pinSelf()
}

// pinSelf pins this process, last: a process that is started has the CPUs of the one that starts it.
func (r *Runner) pinSelf() error {
	if r.pin == PinNone || r.pinned {
		return nil
	}
	r.pinned = true
	return r.Affinity(r.pin, false)
}

// serverFlags are the flags of a server that is started.
func (r *Runner) serverFlags() []string {
	if f := r.Options.ServerCPUProfile; f != "" {
		return []string{"--cpuprofile", f}
	}
	return nil
}

// repeatAlone does a work that has one transport and no cell as often as it is repeated.
func (r *Runner) repeatAlone(ctx context.Context, w *Work, once func() (Result, error)) (*Row, error) {
	var results []Result
	for i := 0; i < r.Options.Repeat && (i == 0 || ctx.Err() == nil); i++ {
		r.progress(w, RDS)
		res, err := once()
		if err != nil {
			return nil, err
		}
		results = append(results, res)
	}
	row := newRow(*w, map[Transport][]Result{RDS: results})
	row.Finished = ctx.Err() == nil
	return &row, nil
}

func (r *Runner) progress(w *Work, t Transport) {
	r.run++
	if r.Progress != nil {
		r.Progress(r.run, r.runs, w.Title()+" over "+string(t))
	}
}

// bind runs a Sockets work, for which there is no server.
func (r *Runner) bind(ctx context.Context, w *Work) (*Row, error) {
	ip := r.Options.Listen
	if !ip.IsValid() {
		ip = clientIP
	}
	port, err := freePort(r.Options.Port, ip)
	if err != nil {
		return nil, err
	}
	p, err := openProvider(r.Config, ip, r.Options.Provider, port, &hello{Paths: r.Options.Paths})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return r.repeatAlone(ctx, w, func() (Result, error) { return bindSockets(p, ip, w.Sockets) })
}

// work does one work as often as it is repeated, over its transports in turn.
func (r *Runner) work(ctx context.Context, w *Work) (row *Row, err error) {
	switch w.Kind {
	case Sockets:
		return r.bind(ctx, w)
	case Connections:
		return r.connections(ctx, w)
	case Regions:
		return r.regions(ctx, w)
	case Stress:
		if w.Ops {
			return r.soak(ctx, w)
		}
	}
	if err := r.prepare(w.Pin); err != nil {
		return nil, err
	}
	hard, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	stopAbort := context.AfterFunc(ctx, func() {
		t := time.NewTimer(abortLimit)
		defer t.Stop()
		select {
		case <-t.C:
			fail(fmt.Errorf("%w, and the run did not end within %v", ErrInterrupted, abortLimit))
		case <-hard.Done():
		}
	})
	defer stopAbort()
	c, end, err := r.connect(ctx, w, fail)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	c.soft, c.hard, c.lose, c.work, c.opts = ctx, hard, fail, w, &r.Options
	if w.Kind == Stopped {
		return r.standstill(ctx, c)
	}
	return r.repeat(ctx, c)
}

func (r *Runner) repeat(ctx context.Context, c *cell) (*Row, error) {
	results := map[Transport][]Result{}
	subject := c.work.subject()
	note := ""
	var err error
loop:
	for i := range r.Options.Repeat {
		for _, t := range r.Options.transports(c.work) {
			if t == TCP && note != "" || ctx.Err() != nil && len(results[subject]) > 0 {
				continue
			}
			r.progress(c.work, t)
			c.transport = t
			var res Result
			limit := r.Options.Warmup + r.Options.Duration + stallLimit + time.Duration(c.work.Sockets)*socketTime
			stalled := time.AfterFunc(limit, func() { c.lose(fmt.Errorf("the run has not ended after %v", limit)) })
			res, err = c.run()
			stalled.Stop()
			var few errDescriptors
			if errors.As(err, &few) {
				note, err = few.Error(), nil
				if _, err = c.control.call(request{Op: opClose}); err == nil {
					continue
				}
			}
			if err != nil {
				err = fmt.Errorf("run %d over %s: %w", i+1, t, err)
				break loop
			}
			results[t] = append(results[t], res)
		}
	}
	if len(results[subject]) == 0 {
		return nil, err
	}
	row := newRow(*c.work, results)
	row.Note, row.Finished = note, ctx.Err() == nil && err == nil
	return &row, err
}
