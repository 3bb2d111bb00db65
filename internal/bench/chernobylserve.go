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
	v, s, l, err := listenVerbs(ip, w, o, directory+(w.Workers+1)*posted*messageSize, fail)
	if err != nil {
		return nil, err
	}
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
			var q *receiver
			if queues[i], q, err = v.openQueue(i+1, directory+i*posted*messageSize, messageSize, posted, posted); err != nil {
				s.close()
				return nil, err
			}
			s.run(func() error { return ungone(all[i].serve(q, s.tally)) })
		}
		v.shared = taking(queues)
	}
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

// serve checks what comes to the worker's queue. A message that is delivered
// after another tells the client that the one of places-1 before has been
// looked at, and its place may be written to.
func (w *written) serve(q *receiver, t *tally) error {
	return q.serve(places, t, func(m []byte) error {
		if w.worker == q.v.w.Workers {
			return errors.New("a message of the rogue was delivered, although its Write had a bad key")
		}
		return w.check(m)
	}, func(int) error { return nil })
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
	var (
		answer []byte
		bad    error // what is wrong with a message
	)
	err = r.serve(answerMost, t, func(m []byte) error {
		worker, _, err := parseMessage(m)
		if err == nil && worker >= uint64(len(all)) {
			err = fmt.Errorf("a message of worker %d", worker)
		}
		if err == nil {
			err = all[worker].check(m)
		}
		answer = binary.LittleEndian.AppendUint32(answer, uint32(worker))
		bad = err
		return err
	}, func(int) error {
		_, err := v.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpSend, Inline: answer})
		answer = answer[:0]
		return err
	})
	if bad != nil {
		return bad
	}
	return fmt.Errorf("%w: %w", errEnded, err)
}
