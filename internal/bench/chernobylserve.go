package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// written is the server's side of a worker: memory that the client writes to,
// and how many messages have told of it. Operation n is in place n modulo
// places. One goroutine uses it.
type written struct {
	worker int
	mem    []byte
	size   int
	n      uint64
}

// openWritten registers the worker's memory and enters it into the directory.
func (v *verbs) openWritten(worker int) (*written, error) {
	w := &written{worker: worker, mem: make([]byte, places*v.w.Size), size: v.w.Size}
	region, err := v.pd.RegMR(w.mem, mr.LocalWrite|mr.RemoteWrite, regionBase)
	if err != nil {
		return nil, err
	}
	putEntry(v.mem, worker, remoteRegion{region.Key(), region.Base()})
	return w, nil
}

// check verifies a message, and what was written before it: a message that is
// lost, doubled or early does not pass.
func (w *written) check(message []byte) error {
	worker, n, err := parseMessage(message)
	switch {
	case err != nil:
		return err
	case worker != uint64(w.worker) || n != w.n:
		return fmt.Errorf("message %d of worker %d came where %d of worker %d was due", n, worker, w.n, w.worker)
	}
	w.n++
	return checkPlace(w.mem[int(n%places)*w.size:][:w.size], w.worker, n)
}

// serveChernobyl serves w on one connection, over a plain one the answers are
// messages.
func serveChernobyl(ip netip.Addr, w *Work, plain bool, o verbsSettings, fail func(error)) (*service, error) {
	directory := (w.Workers + 1) * directoryLen
	posted := places - 1
	if plain {
		posted = 1
	}
	v, err := openVerbs(w, o, directory+(w.Workers+1)*posted*messageSize)
	if err != nil {
		return nil, err
	}
	s := &service{tally: newTally(), fail: fail}
	s.own(closer(v.close))
	all := make([]*written, w.Workers+1) // the last is the rogue's
	for i := range all {
		if all[i], err = v.openWritten(i); err != nil {
			s.close()
			return nil, err
		}
	}
	serve := func() error { return v.answerPlain(all, directory, s.tally) }
	if !plain {
		serve = func() error { return nil }
		queues := make(queueTable, len(all))
		for i := range all {
			var q *sharedQueue
			if queues[i], q, err = v.openQueue(i+1, directory+i*posted*messageSize, messageSize, posted, posted); err != nil {
				s.close()
				return nil, err
			}
			s.run(func() error { return ungone(all[i].serve(q, s.tally)) })
		}
		v.shared = taking(queues)
	}
	l, err := v.dev.Listen(netip.AddrPortFrom(ip, 0))
	if err != nil {
		s.close()
		return nil, err
	}
	s.addrs = []netip.AddrPort{l.Addr()}
	s.run(func() error {
		err := v.accept(l)
		if err == nil {
			err = serve()
		}
		if err == nil {
			err = v.qp.Wait(v.ctx)
		}
		if plain && errors.Is(err, errEnded) { // a plain connection ends as expected
			return nil
		}
		return ungone(err)
	})
	return s, nil
}

// ungone is err, unless it means that the client has gone.
func ungone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// serve checks what comes to the worker's queue. A message that is delivered
// after another tells the client that the one of places-1 before has been
// looked at, and its place may be written to.
func (w *written) serve(q *sharedQueue, t *tally) error {
	var comps [places]iwarp.Completion
	for {
		k, err := q.v.take(q.cq, comps[:])
		if err != nil {
			return err
		}
		for i := range comps[:k] {
			if w.worker == q.v.w.Workers {
				return errors.New("a message of the rogue was delivered, although its Write had a bad key")
			}
			if err := w.check(q.memory(&comps[i])); err != nil {
				return err
			}
		}
		if err := q.repost(k); err != nil {
			return err
		}
		t.add(k)
	}
}

// errEnded: a plain connection is no more.
var errEnded = errors.New("connection ended")

// answerSize is how much an answer has for each message: the worker.
const (
	answerSize = 4
	answerMost = inlineMost / answerSize
)

// answerPlain checks what comes to the queue pair of a plain connection, and
// tells the client which workers' messages it has seen: without shared queues
// nothing else does.
func (v *verbs) answerPlain(all []*written, at int, t *tally) error {
	r, err := newReceiver(v, at, messageSize, len(all))
	if err != nil {
		return err
	}
	comps := make([]iwarp.Completion, answerMost)
	var answer [inlineMost]byte
	for {
		k, err := v.take(v.recv, comps)
		if err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		for i := range comps[:k] {
			m := r.memory(&comps[i])
			worker, _, err := parseMessage(m)
			if err == nil && worker >= uint64(len(all)) {
				err = fmt.Errorf("a message of worker %d", worker)
			}
			if err == nil {
				err = all[worker].check(m)
			}
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint32(answer[i*answerSize:], uint32(worker))
		}
		if err := r.repost(k); err != nil {
			return err
		}
		t.add(k)
		_, err = v.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpSend, Inline: answer[:k*answerSize]})
		if err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
	}
}
