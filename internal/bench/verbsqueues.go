package bench

import (
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
)

// maxQueues bounds the shared receive queues of an RDMA work.
const maxQueues = 4096

// window is how many messages are outstanding to each shared queue.
func (w *Work) window() int { return w.Depth / max(w.Queues, 1) }

// queueReceives is how many receive requests each shared queue has.
func (w *Work) queueReceives() int {
	return max(2*w.Batch, 16, min(4096, windowBytes/max(w.Size, 1)/max(w.Queues, 1)))
}

// checkQueues refuses works that a server would take too much memory for.
func (w *Work) checkQueues() bool {
	return w.Queues == 0 && w.Stopped == 0 ||
		w.Op == OpSend && !w.PingPong && w.Queues >= 1 && w.Queues <= maxQueues && w.Stopped >= 0 && w.Stopped < w.Queues &&
			w.window() >= 1 && w.Queues*w.queueReceives()*w.Size <= 1<<28
}

// queueDepth completes a Send work over shared queues.
func (w *Work) queueDepth(o *Options) {
	w.Queues, w.Stopped = o.Queues, o.Stopped
	if w.Queues == 0 {
		return
	}
	if o.Depth == 0 {
		w.Depth = max(w.Queues, min(maxOutstanding, 2*w.Batch*w.Queues, windowBytes/w.Size))
	}
	w.Batch = min(w.Batch, w.window())
}

// queuesSentence tells what queues that are stopped cost the others.
func (row *Row) queuesSentence() string {
	if row.Running == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s/s to the others beside what is stopped, %s/s without: x %.3f",
		row.Title, count(row.RDS.Rate), count(row.Running.Rate), row.OfRunning)
}

// sinkQueues has each shared queue but those that are stopped, which never get
// memory, drained by a goroutine of its own.
func (v *verbs) sinkQueues(s *service) error {
	w := v.w
	n := w.queueReceives()
	queues := make(queueTable, w.Queues)
	for i := range queues {
		posted := n
		if i >= w.Queues-w.Stopped {
			posted = 0
		}
		srq, q, err := v.openQueue(i+1, i*n*w.Size, w.Size, n, posted)
		if err != nil {
			return err
		}
		queues[i] = srq
		if posted > 0 {
			s.run(func() error { return ungone(q.sink(s.tally, func(uint64) error { return nil })) })
		}
	}
	v.shared = taking(queues)
	return nil
}

// openQueue makes the shared receive queue of this number for n requests, with a completion
// queue of its own, and posts some of size bytes, whose memory is the region's from byte at on.
func (v *verbs) openQueue(number, at, size, n, posted int) (*iwarp.SRQ, *receiver, error) {
	cq, err := v.dev.CreateCQ(n)
	if err != nil {
		return nil, nil, err
	}
	srq, err := v.pd.CreateSRQ(iwarp.SRQConfig{Number: uint32(number), CQ: cq, MaxReceive: n})
	if err != nil {
		return nil, nil, err
	}
	r, err := newReceiverOf(v, cq, srq.PostReceive, at, size, posted)
	return srq, r, err
}

// queueTable finds queues; number n is at n-1. It does not change once there is
// a connection.
type queueTable []*iwarp.SRQ

// Find is that of iwarp.Queues.
func (t queueTable) Find(n uint32) *iwarp.SRQ {
	if n < 1 || n > uint32(len(t)) {
		return nil
	}
	return t[n-1]
}

// sending are the parameters of a client whose peer has queues.
func sending() *iwarp.SharedParams { return &iwarp.SharedParams{Send: true, Require: true} }

// taking are those of the server. Peers may do wrong as often as they like.
func taking(t queueTable) *iwarp.SharedParams {
	return &iwarp.SharedParams{Queues: t, Errors: -1, Require: true}
}
