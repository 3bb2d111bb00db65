package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
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

	child   *child     // the server, which this process has started or reached
	here    netip.Addr // our address, as seen from a server that was reached
	daemons *daemons   // the daemons of provider rdsd, unless --server has them
	pin     Pin        // how daemons, child and this process are pinned
	pinned  bool       // this process is pinned
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
func (r *Runner) prepare(ctx context.Context, pin Pin) error {
	pin = cmp.Or(pin, PinNone)
	if r.pin != pin {
		if err := r.endProcesses(); err != nil {
			return err
		}
		r.pin = pin
	}
	var err error
	switch o := &r.Options; {
	case r.child != nil:
	case o.Server != "":
		r.child, err = r.reach(ctx)
	default:
		if o.Provider == rds.ProviderDaemon {
			r.daemons, err = r.startDaemons()
		}
		if err == nil {
			r.child, err = r.start("server", serverSide, r.serverFlags()...)
		}
	}
	return errors.Join(err, r.pinSelf())
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

func (r *Runner) progress(w *Work, t Transport) {
	r.run++
	if r.Progress != nil {
		r.Progress(r.run, r.runs, w.Title()+" over "+string(t))
	}
}

// alone makes one run of a work that needs no server; nil for other works.
func (r *Runner) alone(ctx context.Context, w *Work) func(Transport) (Result, error) {
	switch {
	case w.Kind == Sockets:
		return func(Transport) (Result, error) { return r.bindSockets(w.Sockets) }
	case w.Kind == Connections:
		return func(Transport) (res Result, err error) {
			f := &fabric{w: w}
			if err = f.start(r); err == nil {
				res, err = f.run(ctx)
			}
			return res, errors.Join(err, f.close())
		}
	case w.Kind == Regions:
		return func(t Transport) (Result, error) {
			return (&regionsRun{w: w, opts: &r.Options, soft: ctx, single: t == Singles}).run()
		}
	case w.Kind == Stress && w.Ops:
		return func(Transport) (Result, error) { return r.soak(ctx, w) }
	}
	return nil
}

// work does one work as often as it is repeated, over its transports in turn.
func (r *Runner) work(ctx context.Context, w *Work) (row *Row, err error) {
	if once := r.alone(ctx, w); once != nil {
		return r.repeat(ctx, w, once)
	}
	if err := r.prepare(ctx, w.Pin); err != nil {
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
	c, end, err := r.connect(w, fail)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	c.soft, c.hard, c.lose, c.work, c.opts = ctx, hard, fail, w, &r.Options
	if w.Kind == Stopped {
		return r.standstill(ctx, c)
	}
	limit := r.Options.Warmup + r.Options.Duration + stallLimit + time.Duration(w.Sockets)*socketTime
	return r.repeat(ctx, w, func(t Transport) (Result, error) {
		c.transport = t
		stalled := time.AfterFunc(limit, func() { c.lose(fmt.Errorf("the run has not ended after %v", limit)) })
		defer stalled.Stop()
		return c.run()
	})
}

// repeat makes a row of runs. Without the descriptors for a baseline there is none.
func (r *Runner) repeat(ctx context.Context, w *Work, once func(Transport) (Result, error)) (*Row, error) {
	results := map[Transport][]Result{}
	subject := w.subject()
	note := ""
	var err error
	for i := 0; i < r.Options.Repeat && err == nil; i++ {
		for _, t := range r.Options.transports(w) {
			if err != nil || t == TCP && note != "" || ctx.Err() != nil && len(results[subject]) > 0 {
				continue
			}
			r.progress(w, t)
			var res Result
			var few errDescriptors
			switch res, err = once(t); {
			case errors.As(err, &few):
				note, err = few.Error(), nil
			case err != nil:
				err = fmt.Errorf("run %d over %s: %w", i+1, t, err)
			default:
				results[t] = append(results[t], res)
			}
		}
	}
	if len(results[subject]) == 0 {
		return nil, err
	}
	row := newRow(*w, results)
	row.Note, row.Finished = note, ctx.Err() == nil && err == nil
	return &row, err
}
