package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// verbsLevel is a run over verbs. Its memory: what each worker writes, the note each has for
// its messages, room for answers.
type verbsLevel struct {
	r     *chernobylRun
	plain bool
	v     *verbs
	all   []*verbsPlace // the last is the rogue's
}

func (l *verbsLevel) source(worker int) int { return worker * l.r.c.work.Size }
func (l *verbsLevel) note(worker int) int {
	return l.source(l.r.c.work.Workers+1) + worker*messageSize
}
func (l *verbsLevel) room() int   { return l.note(l.r.c.work.Workers + 1) }
func (l *verbsLevel) rounds() int { return 1 }

func (l *verbsLevel) ports() (all []placePort) {
	for _, w := range l.all[:len(l.all)-1] {
		all = append(all, w)
	}
	return all
}

func (r *chernobylRun) openVerbs() (level, func(), error) {
	l := &verbsLevel{r: r, plain: r.c.transport == Plain}
	answers := 0
	if l.plain {
		answers = r.c.work.Workers
	}
	var in *receiver
	v, end, err := r.c.dialVerbs(l.room()+answers*inlineMost, func(v *verbs) (err error) {
		if !l.plain {
			v.shared = sending()
			return nil
		}
		in, err = newReceiver(v, l.room(), inlineMost, answers)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	l.v = v
	for i := range r.c.work.Workers {
		l.all = append(l.all, l.newPlace(i))
	}
	l.all = append(l.all, l.newRogue())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.complete(); v.ctx.Err() == nil {
			r.c.lose(err)
		}
	})
	if l.plain {
		wg.Go(func() {
			if err := l.answers(in); v.ctx.Err() == nil && err != nil {
				r.c.lose(err)
			}
		})
	}
	return l, func() { end(); wg.Wait() }, nil
}

// verbsPlace posts operations one after the other. Its goroutine posts; those that
// poll tell it by ended and part what has become of each request.
type verbsPlace struct {
	l      *verbsLevel
	index  int
	reqs   []iwarp.WorkRequest
	parts  int32         // events that make up an operation
	left   atomic.Int32  // events that the operation under way still lacks
	status atomic.Uint32 // status of the first request that failed
	refuse atomic.Int32  // requests that were refused for their key
	wake   chan struct{} // cap 1: has a token when left is 0
}

// ended is called for each request that has completed.
func (w *verbsPlace) ended(status iwarp.Status) {
	if status == iwarp.RemoteAccess {
		w.refuse.Add(1)
	}
	if status != iwarp.Success {
		w.status.CompareAndSwap(0, uint32(status))
	}
	w.part()
}

// part is called for each part of an operation that is over.
func (w *verbsPlace) part() {
	if w.left.Add(-1) == 0 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// operate posts the requests and waits for their end.
func (w *verbsPlace) operate() error {
	w.left.Store(w.parts)
	if _, err := w.l.v.qp.PostSend(w.reqs...); err != nil {
		return err
	}
	select {
	case <-w.wake:
		return nil
	case <-w.l.v.qp.Done(): // a plain connection has ended: all is sent, and no answer comes
		w.status.CompareAndSwap(0, uint32(iwarp.Flushed))
		return nil
	case <-w.l.v.ctx.Done():
		return w.l.v.ctx.Err()
	}
}

// write writes to the place of operation n. Without shared queues an operation that fails is
// the end of the connection.
func (w *verbsPlace) write(n uint64) error {
	size, mem := w.l.r.c.work.Size, w.l.v.mem
	fillPattern(mem[w.l.source(w.index):][:size], placeSeed(w.index, n))
	putMessage(mem[w.l.note(w.index):][:messageSize], w.index, n)
	w.reqs[0].RemoteAddr = regionBase + n%places*uint64(size)
	err := w.operate()
	if err == nil && w.status.Load() != 0 {
		err = errFailed
	}
	return err
}

func (w *verbsPlace) read(uint64) error { return errors.ErrUnsupported }
func (w *verbsPlace) reads() bool       { return false }

// newPlace makes the port of a worker, whose operation is a Write and a message that builds on it.
func (l *verbsLevel) newPlace(i int) *verbsPlace {
	w := &verbsPlace{l: l, index: i, parts: 2, wake: make(chan struct{}, 1)}
	w.reqs = []iwarp.WorkRequest{
		{ID: uint64(i), Op: iwarp.OpWrite, Flags: iwarp.Signaled, SGE: []iwarp.SGE{l.v.region.SGE(l.source(i), l.r.c.work.Size)}, RemoteKey: mr.Key(l.r.c.keys[i])},
		{ID: uint64(i), Op: iwarp.OpSend, Flags: iwarp.Signaled, Inline: l.v.mem[l.note(i):][:messageSize]},
	}
	if l.plain {
		w.parts++ // the answer is a part
	} else {
		w.reqs[1].Queue, w.reqs[1].Writes = uint32(i+1), 1
	}
	return w
}

// newRogue makes the port of the rogue, whose keys are bad: a stale key, the end of the
// region, a right that there is not, and a message that builds on a Write.
func (l *verbsLevel) newRogue() *verbsPlace {
	i, size := len(l.all), l.r.c.work.Size
	key := mr.Key(l.r.c.keys[i])
	local := []iwarp.SGE{l.v.region.SGE(l.source(i), size)}
	beyond := uint64(places*size) - uint64(size/2)
	if size == 1 { // half of one byte is none
		beyond += 2
	}
	w := &verbsPlace{l: l, index: i, wake: make(chan struct{}, 1), reqs: []iwarp.WorkRequest{
		{Op: iwarp.OpWrite, SGE: local, RemoteKey: key, RemoteAddr: regionBase + beyond},
		{Op: iwarp.OpWrite, SGE: local, RemoteKey: key + 1, RemoteAddr: regionBase},
	}}
	if !l.plain { // the message comes right after the Write
		w.reqs = append(w.reqs, iwarp.WorkRequest{Op: iwarp.OpSend, Queue: uint32(i + 1), Writes: 1, Inline: l.v.mem[l.note(i):][:messageSize]})
	}
	for _, key := range []mr.Key{key, key + 1} {
		w.reqs = append(w.reqs, iwarp.WorkRequest{Op: iwarp.OpRead, SGE: local, RemoteKey: key, RemoteAddr: regionBase})
	}
	for k := range w.reqs {
		w.reqs[k].ID, w.reqs[k].Flags = uint64(i), iwarp.Signaled
	}
	w.parts = int32(len(w.reqs))
	return w
}

// provoke posts bad requests. On a plain connection the first is the end for all workers.
func (l *verbsLevel) provoke() (uint64, error) {
	w := l.all[len(l.all)-1]
	w.refuse.Store(0)
	if err := w.operate(); err != nil {
		return 0, err
	}
	n := w.refuse.Load()
	if l.plain {
		l.r.until(l.r.over)
	} else if n != w.parts {
		return uint64(n), fmt.Errorf("%d of %d requests with bad keys were refused, one ended with %v", n, w.parts, iwarp.Status(w.status.Load()))
	}
	return uint64(n), nil
}

// complete tells the workers what has completed, until the run's end.
func (l *verbsLevel) complete() error {
	comps := make([]iwarp.Completion, 256)
	for {
		k := l.v.send.Poll(comps)
		for i := range comps[:k] {
			l.all[comps[i].ID].ended(comps[i].Status)
		}
		if k > 0 {
			continue
		}
		if err := l.v.send.Wait(l.v.ctx); err != nil {
			return err
		}
	}
}

// answers tells the workers what the server has answered on a plain
// connection, until that or the run ends.
func (l *verbsLevel) answers(in *receiver) (bad error) {
	_ = in.serve(64, newTally(), func(b []byte) error { // completions tell the workers of another error, too
		for ; len(b) >= answerSize; b = b[answerSize:] {
			i := binary.LittleEndian.Uint32(b)
			if i >= uint32(l.r.c.work.Workers) {
				bad = errors.New("an answer for nobody")
				return bad
			}
			l.all[i].part()
		}
		return nil
	}, func(int) error { return nil })
	return bad
}

// confirm: without errors the server has as many messages as operations have ended well.
func (l *verbsLevel) confirm(res *Result, writes uint64) error {
	t, c := res.Thirds, l.r.c
	res.TCPConns = int(l.v.dev.Stats().Connected)
	switch {
	case l.plain:
		snap, err := c.ask(request{Op: opSnap})
		done := l.r.done.Load()
		t.Unanswered = max(snap.Count, done) - done
		return err
	case t.Errors > 0:
		var failures []string
		for _, w := range l.all[:len(l.all)-1] {
			if s := w.status.Load(); s != 0 && len(failures) < 8 {
				failures = append(failures, fmt.Sprintf("worker %d: %v", w.index, iwarp.Status(s)))
			}
		}
		return errors.Join(fmt.Errorf("%d operations with good keys failed: %s", t.Errors, strings.Join(failures, ", ")), l.v.qp.Err())
	}
	_, err := c.ask(request{Op: opConfirm, Count: writes})
	return err
}
