package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
)

// written is the server's side of a worker: memory that the client writes to,
// and how many messages have told of it. Operation n is in place n modulo
// places. One goroutine uses it.
type written struct {
	worker int
	rogue  bool
	mem    []byte
	size   int
	n      uint64
}

func (w *Work) newWritten(worker int, mem []byte) *written {
	return &written{worker: worker, rogue: worker == w.Workers, mem: mem, size: w.Size}
}

// check verifies a message, and what was written before it: a message that is
// lost, doubled or early does not pass.
func (w *written) check(message []byte) error {
	worker, n, err := parseMessage(message)
	switch {
	case w.rogue:
		return errors.New("a message of the rogue was delivered, although its write had a bad key")
	case err != nil:
		return err
	case worker != uint64(w.worker) || n != w.n:
		return fmt.Errorf("message %d of worker %d came where %d of worker %d was due", n, worker, w.n, w.worker)
	}
	w.n++
	if err := checkPattern(w.mem[int(n%places)*w.size:][:w.size], placeSeed(w.worker, n)); err != nil {
		return fmt.Errorf("worker %d, operation %d: %w", w.worker, n, err)
	}
	return nil
}

// serveChernobyl serves w on one connection, over a plain one the answers are
// messages.
func serveChernobyl(ip netip.Addr, w *Work, plain bool, o *TCPSettings, fail func(error)) (*service, error) {
	posted := places - 1
	if plain {
		posted = 1
	}
	v, s, l, err := listenVerbs(ip, w, o, (w.Workers+1)*posted*messageSize, fail)
	if err != nil {
		return nil, err
	}
	all := make([]*written, w.Workers+1) // the last is the rogue's
	for i := range all {
		mem := make([]byte, places*w.Size)
		region, err := v.pd.RegMR(mem, mr.LocalWrite|mr.RemoteWrite, regionBase)
		if err != nil {
			s.close()
			return nil, err
		}
		all[i] = w.newWritten(i, mem)
		s.keys = append(s.keys, uint64(region.Key()))
	}
	serve := func() error { return v.answerPlain(all, s.tally) }
	if !plain {
		serve = func() error { return nil }
		queues := make(queueTable, len(all))
		for i := range all {
			var q *receiver
			if queues[i], q, err = v.openQueue(i+1, i*posted*messageSize, messageSize, posted, posted); err != nil {
				s.close()
				return nil, err
			}
			// A message that is delivered after another tells the client that the one of places-1
			// before has been looked at, and its place may be written to.
			s.run(func() error { return ungone(q.serve(places, s.tally, all[i].check, func(int) error { return nil })) })
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
func (v *verbs) answerPlain(all []*written, t *tally) error {
	r, err := newReceiver(v, 0, messageSize, len(all))
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

// serveChernobylSockets binds a socket for each of the client's, and exposes memory
// of each that the client's is to write to and read; the rogue's, which is the last,
// may only be read.
func serveChernobylSockets(p rds.Provider, ip netip.Addr, w *Work, fail func(error)) (*service, error) {
	v := &service{tally: newTally(), fail: fail}
	for i := range w.Workers + 1 {
		s, err := v.bind(p, ip)
		if err != nil {
			return nil, err
		}
		flags := rds.MRReadWrite
		if i == w.Workers {
			flags = rds.MRReadOnly
		}
		mem, err := v.expose(s, places*w.Size, flags)
		if err != nil {
			return nil, err
		}
		mine := w.newWritten(i, mem)
		v.run(func() error { return mine.serveSocket(s, v.tally) })
	}
	return v, nil
}

// serveSocket checks and answers the client's messages.
func (w *written) serveSocket(s *rds.Socket, t *tally) error {
	err := answer(s, 1, func(_ int, m *rds.Message, out *rds.Outgoing) error {
		if err := w.check(m.Data); err != nil {
			return err
		}
		out.Data = m.Data
		t.add(1)
		return nil
	})
	return fmt.Errorf("socket %d: %w", w.worker, err)
}
