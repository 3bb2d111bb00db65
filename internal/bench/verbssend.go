package bench

import (
	"encoding/binary"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
)

// window posts work requests of one kind, in lists, as many as may be
// outstanding. The last of each list is signaled, and tells in its ID how many
// it stands for.
type window struct {
	v     *verbs
	reqs  []iwarp.WorkRequest // a ring
	next  int                 // index of the request to post next
	out   int                 // requests posted and not known to be complete
	comps []iwarp.Completion
}

func newWindow(v *verbs, each func(i int) iwarp.WorkRequest) window {
	w := window{v: v, reqs: make([]iwarp.WorkRequest, v.w.Depth), comps: make([]iwarp.Completion, 64)}
	for i := range w.reqs {
		w.reqs[i] = each(i)
	}
	return w
}

// room waits until a list of up to n can be posted and returns it; its requests
// are not in use any more.
func (w *window) room(n int) ([]iwarp.WorkRequest, error) {
	n = min(n, w.v.w.Batch, len(w.reqs)-w.next)
	for len(w.reqs)-w.out < n {
		if err := w.reap(); err != nil {
			return nil, err
		}
	}
	return w.reqs[w.next : w.next+n], nil
}

// reap waits for completions.
func (w *window) reap() error {
	k, err := w.v.take(w.v.send, w.comps)
	for i := range w.comps[:k] {
		w.out -= int(w.comps[i].ID)
	}
	return err
}

// post posts a list from room.
func (w *window) post(list []iwarp.WorkRequest) error {
	for i := range list {
		list[i].Flags = 0
	}
	last := &list[len(list)-1]
	last.Flags, last.ID = iwarp.Signaled, uint64(len(list))
	if _, err := w.v.qp.PostSend(list...); err != nil {
		return err
	}
	w.out += len(list)
	w.next = (w.next + len(list)) % len(w.reqs)
	return nil
}

// newVerbsBurster opens what sends one way.
func (c *cell) newVerbsBurster() (burster, func(), error) {
	switch {
	case c.work.Op == OpWrite:
		return c.newVerbsWriter()
	case c.work.Queues > 0:
		return c.newSpreader()
	}
	return c.newVerbsSender()
}

// verbsSender sends messages while it knows of receive requests for them.
type verbsSender struct {
	window
	credits *receiver
	comps   []iwarp.Completion
	data    func(i int) []byte
	granted uint64 // messages that there have been receive requests for
}

func (c *cell) newVerbsSender() (*verbsSender, func(), error) {
	s := &verbsSender{comps: make([]iwarp.Completion, credits), granted: uint64(c.work.receives())}
	size := c.work.Size
	v, end, err := c.dialVerbs(c.work.Depth*size, func(v *verbs) (err error) {
		s.credits, err = newReceiver(v, len(v.mem)-creditBytes, numberEnd, credits)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.data = func(i int) []byte { return v.mem[i*size : (i+1)*size] }
	s.window = newWindow(v, func(i int) iwarp.WorkRequest {
		if size <= inlineMost {
			return iwarp.WorkRequest{Op: iwarp.OpSend, Inline: s.data(i)}
		}
		return iwarp.WorkRequest{Op: iwarp.OpSend, SGE: []iwarp.SGE{v.region.SGE(i*size, size)}}
	})
	return s, end, nil
}

func (s *verbsSender) burst(first uint64, n int) error {
	for n > 0 {
		list, err := s.room(n)
		if err != nil {
			return err
		}
		for first+uint64(len(list)) > s.granted {
			if err := s.grants(); err != nil {
				return err
			}
		}
		for i := range list {
			putNumber(s.data(s.next+i), first+uint64(i))
		}
		first += uint64(len(list))
		n -= len(list)
		if err := s.post(list); err != nil {
			return err
		}
	}
	return nil
}

// grants waits for the server to have posted more.
func (s *verbsSender) grants() error {
	k, err := s.v.take(s.v.recv, s.comps)
	if err != nil {
		return err
	}
	last := s.credits.memory(&s.comps[k-1])
	if len(last) != numberEnd {
		return fmt.Errorf("a grant of %d bytes", len(last))
	}
	s.granted = binary.LittleEndian.Uint64(last) + uint64(s.v.w.receives())
	return s.credits.repost(k)
}

func (s *verbsSender) flush() error { return nil } // the receiver confirms

// verbsWriter writes messages to places of the server's memory, in turn. A
// flush reads all their numbers back, which a peer answers when it has placed
// everything that was sent before (RFC 5040 section 5.5).
type verbsWriter struct {
	window
	size int
	sent uint64
}

func (c *cell) newVerbsWriter() (*verbsWriter, func(), error) {
	w := &verbsWriter{size: c.work.Size}
	v, end, err := c.dialVerbs(c.work.Depth*(c.work.Size+numberEnd), nil)
	if err != nil {
		return nil, nil, err
	}
	w.window = newWindow(v, func(i int) iwarp.WorkRequest {
		return iwarp.WorkRequest{
			Op: iwarp.OpWrite, SGE: []iwarp.SGE{v.region.SGE(i*w.size, w.size)},
			RemoteKey: v.remote.key, RemoteAddr: v.remote.addr + uint64(i*w.size),
		}
	})
	return w, end, nil
}

func (w *verbsWriter) burst(first uint64, n int) error {
	for n > 0 {
		list, err := w.room(n)
		if err != nil {
			return err
		}
		for i := range list {
			putNumber(w.v.mem[(w.next+i)*w.size:][:w.size], first+uint64(i))
		}
		first += uint64(len(list))
		n -= len(list)
		if err := w.post(list); err != nil {
			return err
		}
	}
	w.sent = first
	return nil
}

func (w *verbsWriter) flush() error {
	for w.out > 0 {
		if err := w.reap(); err != nil {
			return err
		}
	}
	places := uint64(len(w.reqs))
	written := min(places, w.sent)
	n := min(numberEnd, w.size)
	back := len(w.reqs) * w.size // offset in our region where the numbers go
	for i := range int(written) {
		_, err := w.v.qp.PostSend(iwarp.WorkRequest{
			ID: 1, Op: iwarp.OpRead, Flags: iwarp.Signaled, SGE: []iwarp.SGE{w.v.region.SGE(back+i*numberEnd, n)},
			RemoteKey: w.v.remote.key, RemoteAddr: w.v.remote.addr + uint64(i*w.size),
		})
		if err != nil {
			return err
		}
		w.out++
	}
	for w.out > 0 {
		if err := w.reap(); err != nil {
			return err
		}
	}
	for k := range written {
		m := w.sent - 1 - k // the last written to its place
		if err := checkMessage(w.v.mem[back+int(m%places)*numberEnd:][:n], n, m); err != nil {
			return fmt.Errorf("memory written to: %w", err)
		}
	}
	return nil
}
