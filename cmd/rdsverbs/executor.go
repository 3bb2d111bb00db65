package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

const (
	opDepth = 64  // outstanding requests
	opSeed  = 200 // seed of the pattern that is sent
)

var errRTR = errors.New("want send, write or read")

// executor does operations on one connection.
type executor struct {
	*endpoint
	dev   *iwarp.Device
	pd    *iwarp.PD
	terms *terms
	watch *watcher
	out   *printer
	bad   bool // something has failed
}

func newExecutor(dev *iwarp.Device, t *terms, w *watcher, out *printer) (*executor, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(dev, pd, opDepth, 1)
	if err != nil {
		return nil, err
	}
	return &executor{endpoint: e, dev: dev, pd: pd, terms: t, watch: w, out: out}, nil
}

// run connects, does the operations and disconnects. It reports whether all of
// that went well; the error is why it did not begin or did not end.
func (e *executor) run(ctx context.Context, to netip.AddrPort, params iwarp.ConnParams, list []operation) (bool, error) {
	step, cancel := e.terms.step(ctx)
	est, err := e.dev.Connect(step, e.qp, to, params)
	cancel()
	if err != nil {
		return false, reason(step, err)
	}
	e.out.print(connected(0, est))
	for i := range list {
		if err := e.operate(ctx, i, &list[i]); err != nil {
			return false, err
		}
	}
	if err := e.qp.Disconnect(); err != nil && e.qp.State() != iwarp.StateError {
		return false, err
	}
	if err := e.ended(ctx); err != nil {
		return false, err
	}
	line := endLine(0, e.qp.Err(), e.watch.take(e.qp))
	e.out.print(line)
	return !e.bad && line.Clean, nil
}

// ended waits for the end of the connection.
func (e *executor) ended(ctx context.Context) error {
	step, cancel := e.terms.step(ctx)
	defer cancel()
	select {
	case <-e.qp.Done():
		return nil
	case <-step.Done():
		return reason(step, step.Err())
	}
}

// operate does an operation and prints how it completes.
func (e *executor) operate(ctx context.Context, index int, o *operation) error {
	if o.wait {
		return e.ended(ctx)
	}
	mem := make([]byte, max(o.mem, 1))
	if o.op != iwarp.OpRead {
		pattern(mem, opSeed)
	}
	m, err := e.pd.RegMR(mem, mr.LocalWrite, 1<<32)
	if err != nil {
		return err
	}
	defer dereg(m)
	work := o.request(m)
	lines := completions{out: e.out, index: index}
	defer lines.flush()
	for posted, done := uint64(0), uint64(0); done < o.count; done++ {
		for posted < o.count && posted-done < opDepth {
			if _, err := e.qp.PostSend(work); err != nil {
				e.refused(index, o, err)
				o.count = posted // posts no more
				break
			}
			posted++
		}
		if done == posted {
			break
		}
		step, cancel := e.terms.step(ctx)
		c, err := e.next(step)
		cancel()
		if err != nil {
			return err
		}
		lines.add(completionLine(0, o.op, &c))
		e.bad = e.bad || c.Status != iwarp.Success
	}
	// Nothing is outstanding: what came can be looked at.
	if last := &lines.last; last.Count > 0 && last.Code == int(iwarp.Success) {
		switch {
		case o.op == iwarp.OpRead:
			last.Hash = sum(mem[:last.Length])
		case o.answersWord():
			last.Value = hexOf(binary.NativeEndian.Uint64(mem))
		}
	}
	return nil
}

// refusal is the line of an operation that PostSend does not take.
type refusal struct {
	Type  string `json:"type"` // refused
	Index int    `json:"index"`
	Op    string `json:"op"`
	Error string `json:"error"`
}

func (e *executor) refused(index int, o *operation, err error) {
	e.bad = true
	e.out.print(refusal{Type: "refused", Index: index, Op: o.op.String(), Error: err.Error()})
}

// completions prints completions of one operation, those alike in a row at
// once.
type completions struct {
	out   *printer
	index int
	last  completion // Count 0: none
}

func (l *completions) add(c completion) {
	c.Index = &l.index
	n := l.last.Count
	if l.last.Count = c.Count; n > 0 && l.last == c {
		l.last.Count = n + 1
		return
	}
	l.last.Count = n
	l.flush()
	l.last = c
}

func (l *completions) flush() {
	if l.last.Count > 0 {
		l.out.print(l.last)
	}
	l.last.Count = 0
}
