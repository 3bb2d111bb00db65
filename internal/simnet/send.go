package simnet

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

var errUnable = &transport.FrameError{Err: errors.New("simnet: the link cannot do this")}

// Send is for transport.Link: it takes what fits, and begins operations. It may take its time:
// what happens meanwhile must not change the frames.
func (e *end) Send(frames []transport.Frame) (t transport.Taken, err error) {
	s := e.t.s
	if e.p.dead {
		return t, errLink
	}
	e.sending = append([]byte{}, e.octets(frames)...)
	s.tracef("%v->%v path %d tcp%d writes %d frames", e.p.h, e.p.remote, e.path, e.t.id, len(frames))
	s.check.shown(e, frames)
	if s.chance(0.3) {
		s.suspend(e.host, s.upTo(time.Millisecond))
	}
	if e.p.dead {
		return t, errLink
	}
	if s.rigged(ScribbleBatch, 0.1) && len(e.sending) > 0 {
		i := slices.IndexFunc(frames, func(f transport.Frame) bool { return len(f.Head) > 0 })
		frames[i].Head[0] ^= 0xff
	}
	if !bytes.Equal(e.octets(frames), e.sending) {
		s.check.failf("%v->%v path %d: what Fill showed changed before Wrote", e.p.h, e.p.remote, e.path)
	}
	before := e.written
	t, err = e.send(frames)
	s.check.wrote(e, e.sending, int(e.written-before))
	e.sending = nil
	return t, err
}

// octets are those of frames that were not taken before.
func (e *end) octets(frames []transport.Frame) (all []byte) {
	for i := range frames {
		all = append(append(all, frames[i].Head...), frames[i].Body...)
	}
	return all[e.skip:]
}

// send takes what fits now.
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
