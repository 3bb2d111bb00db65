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
			s.run(func() error { return ungone(q.sink(w, s.tally)) })
		}
	}
	v.shared = taking(queues)
	return nil
}

// sink counts messages and checks their numbers, which are the queue's own.
func (q *sharedQueue) sink(w *Work, t *tally) error {
	comps := make([]iwarp.Completion, max(w.Batch, 1))
	for n := uint64(0); ; {
		k, err := q.v.take(q.cq, comps)
		if err != nil {
			return err
		}
		for i := range comps[:k] {
			if err := checkMessage(q.memory(&comps[i]), w.Size, n); err != nil {
				return err
			}
			n++
		}
		if err := q.repost(k); err != nil {
			return err
		}
		t.add(k)
	}
}

// destination is the client's side of a shared queue: a ring of requests.
type destination struct {
	reqs   []iwarp.WorkRequest
	next   int    // index of the request to post next
	out    int    // requests posted and not known to be complete
	number uint64 // number of the next message
}

// spreader sends messages to shared queues, a list to each in its turn. Those that
// are stopped have as much outstanding as the others may, for good.
type spreader struct {
	v       *verbs
	queues  []destination
	running int // queues below this index are drained
	turn    int
	comps   []iwarp.Completion
}

func (c *cell) newSpreader() (*spreader, func(), error) {
	w := c.work
	v, end, err := c.dialVerbs(w.Depth*w.Size, func(v *verbs) error {
		v.shared = sending()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	s := &spreader{v: v, queues: make([]destination, w.Queues), running: w.Queues - w.Stopped, comps: make([]iwarp.Completion, 64)}
	for i := range s.queues {
		d := &s.queues[i]
		for range w.window() {
			at := (i*w.window() + len(d.reqs)) * w.Size
			r := iwarp.WorkRequest{Op: iwarp.OpSend, Queue: uint32(i + 1)}
			if w.Size <= inlineMost {
				r.Inline = v.mem[at : at+w.Size]
			} else {
				r.SGE = []iwarp.SGE{v.region.SGE(at, w.Size)}
			}
			d.reqs = append(d.reqs, r)
		}
	}
	if c.transport == Running {
		return s, end, nil
	}
	for i := s.running; i < len(s.queues); i++ {
		for k := s.room(i, w.Depth); k > 0; k = s.room(i, w.Depth) {
			if err := s.post(i, k); err != nil {
				end()
				return nil, nil, err
			}
		}
	}
	return s, end, nil
}

// room is how many of n messages can be sent to a queue as a list.
func (s *spreader) room(i, n int) int {
	d := &s.queues[i]
	return min(n, s.v.w.Batch, len(d.reqs)-d.next, len(d.reqs)-d.out)
}

func (s *spreader) burst(_ uint64, n int) error {
	for n > 0 {
		for full := 0; s.room(s.turn, n) == 0; {
			s.turn = (s.turn + 1) % s.running
			if full++; full < s.running {
				continue
			}
			full = 0
			if err := s.reap(); err != nil {
				return err
			}
		}
		k := s.room(s.turn, n)
		if err := s.post(s.turn, k); err != nil {
			return err
		}
		n -= k
		s.turn = (s.turn + 1) % s.running
	}
	return nil
}

// post sends a list of k to a queue. Its last request is signaled, and tells in
// its ID how many it stands for.
func (s *spreader) post(i, k int) error {
	d, size := &s.queues[i], s.v.w.Size
	list := d.reqs[d.next : d.next+k]
	for j := range list {
		at := (i*len(d.reqs) + d.next + j) * size
		putNumber(s.v.mem[at:at+size], d.number)
		d.number++
		list[j].Flags = 0
	}
	last := &list[k-1]
	last.Flags, last.ID = iwarp.Signaled, uint64(i)<<32|uint64(k)
	if _, err := s.v.qp.PostSend(list...); err != nil {
		return err
	}
	d.out += k
	d.next = (d.next + k) % len(d.reqs)
	return nil
}

// reap waits for completions.
func (s *spreader) reap() error {
	k, err := s.v.take(s.v.send, s.comps)
	for i := range s.comps[:k] {
		id := s.comps[i].ID
		s.queues[id>>32].out -= int(uint32(id))
	}
	return err
}

func (s *spreader) flush() error { return nil } // the receivers confirm
