package simnet

import (
	"errors"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

var errUnable = &transport.FrameError{Err: errors.New("simnet: the link cannot do this")}

// send is transport.Link.Send: it takes what fits, and begins operations.
func (e *end) send(frames []transport.Frame) (t transport.Taken, err error) {
	for t.Frames < len(frames) {
		left := frames[t.Frames:]
		if f := &left[0]; len(f.Ops) > 0 && !e.bound {
			begun, told, err := e.begin(f.Ops[0].Owner.(*operation))
			if !begun || !told {
				return t, err
			}
			if f.Size() == 0 {
				t.Frames++
				continue
			}
			e.bound, t.Ops = true, true
		}
		bufs, _, size := transport.Flatten(nil, left, e.skip, transport.MaxSlices)
		var data []byte
		for _, b := range bufs {
			data = append(data, b...)
		}
		n, err := e.write(data)
		part := transport.Cut(left, e.skip, n)
		if part.Frames > 0 {
			e.skip, e.bound, t.Ops = 0, false, false
		}
		e.skip += part.Octets
		t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		if err != nil || n < size {
			return t, err
		}
	}
	return t, nil
}

// begin begins an operation, and tells whether the sender is told.
func (e *end) begin(o *operation) (begun, told bool, err error) {
	s := e.t.s
	switch {
	case e.rst || e.gone || e.closing || e.finSent:
		return false, false, errLink
	case s.chance(0.02):
		o.unable = true
		return false, false, errUnable
	case s.chance(0.2):
		s.after(s.upTo(time.Millisecond), e.writable)
		return false, false, nil
	}
	if o.begun {
		s.check.failf("%v: its operation is begun twice", o.m)
	}
	o.begun = true
	s.counts.Operations++
	if !o.Fence && !o.Silent {
		o.m.begun = true // the link takes the octets that follow for the operation's message
	}
	e.ops = append(e.ops, o)
	e.later(func() { e.execute(o) })
	if s.chance(0.1) { // the answer comes before the writer returns
		e.answer(o, conn.OtherError)
	}
	if s.rigged(RepeatOperations, 0.1) {
		s.after(s.upTo(time.Millisecond), e.writable)
		return true, false, nil
	}
	return true, true, nil
}
