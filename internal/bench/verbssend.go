package bench

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
)

// windows post work requests to one or several destinations, in lists, as many as may be
// outstanding to each. The last of each list is signaled, and tells in its ID whose it is
// and how many it stands for.
type windows struct {
	v     *verbs
	all   []window
	comps []iwarp.Completion
}

// window is of one destination.
type window struct {
	reqs   []iwarp.WorkRequest // a ring
	next   int                 // index of the request to post next
	out    int                 // requests posted and not known to be complete
	number uint64              // number of the next message
}

// newWindows makes n windows, of the work's depth together.
func newWindows(v *verbs, n int, each func(i int) iwarp.WorkRequest) windows {
	w := windows{v: v, all: make([]window, n), comps: make([]iwarp.Completion, 64)}
	for i := range w.all {
		for range v.w.Depth / n {
			w.all[i].reqs = append(w.all[i].reqs, each(i*(v.w.Depth/n)+len(w.all[i].reqs)))
		}
	}
	return w
}

// room is the list of up to n that can be posted to a destination now; nil if it has to wait.
func (w *windows) room(i, n int) []iwarp.WorkRequest {
	d := &w.all[i]
	n = min(n, w.v.w.Batch, len(d.reqs)-d.next)
	if len(d.reqs)-d.out < n {
		return nil
	}
	return d.reqs[d.next : d.next+n]
}

// reap waits for completions.
func (w *windows) reap() error {
	k, err := w.v.take(w.v.send, w.comps)
	for i := range w.comps[:k] {
		id := w.comps[i].ID
		w.all[id>>32].out -= int(uint32(id))
	}
	return err
}

// post posts a list from room.
func (w *windows) post(i int, list []iwarp.WorkRequest) error {
	d := &w.all[i]
	for k := range list {
		list[k].Flags = 0
	}
	last := &list[len(list)-1]
	last.Flags, last.ID = iwarp.Signaled, uint64(i)<<32|uint64(len(list))
	if _, err := w.v.qp.PostSend(list...); err != nil {
		return err
	}
	d.out += len(list)
	d.number += uint64(len(list))
	d.next = (d.next + len(list)) % len(d.reqs)
	return nil
}

// drain waits until everything is complete.
func (w *windows) drain() error {
	for w.all[0].out > 0 {
		if err := w.reap(); err != nil {
			return err
		}
	}
	return nil
}

// sendRequest is a Send of the region's memory at at.
func (v *verbs) sendRequest(at, size int) iwarp.WorkRequest {
	if size <= inlineMost {
		return iwarp.WorkRequest{Op: iwarp.OpSend, Inline: v.mem[at : at+size]}
	}
	return iwarp.WorkRequest{Op: iwarp.OpSend, SGE: []iwarp.SGE{v.region.SGE(at, size)}}
}

// verbsSender sends messages one way. Writes go to places of the server's memory, in turn;
// Sends to shared queues, a list to each in its turn, or to the queue pair, while it is known
// to have receive requests for them. Queues that are stopped have as much outstanding as
// the others may, for good.
type verbsSender struct {
	windows
	credits *receiver // what the server says of its receive requests; nil: nothing
	grant   [credits]iwarp.Completion
	granted uint64 // messages that there have been receive requests for
	running int    // queues below this index are drained
	turn    int
}

func (c *cell) newVerbsSender() (*verbsSender, func(), error) {
	w := c.work
	queues := max(w.Queues, 1)
	s := &verbsSender{granted: uint64(w.receives()), running: queues - w.Stopped}
	n := w.Depth * w.Size
	if w.Op == OpWrite {
		n += w.Depth * numberEnd
	}
	v, end, err := c.dialVerbs(n, func(v *verbs) (err error) {
		switch {
		case w.Queues > 0:
			v.shared = sending()
		case w.Op == OpSend:
			s.credits, err = newReceiver(v, len(v.mem)-creditBytes, numberEnd, credits)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.windows = newWindows(v, queues, func(i int) iwarp.WorkRequest {
		if w.Op == OpWrite {
			return v.remoteRequest(iwarp.OpWrite, i*w.Size, i*w.Size, w.Size)
		}
		r := v.sendRequest(i*w.Size, w.Size)
		if w.Queues > 0 {
			r.Queue = uint32(i/w.window() + 1)
		}
		return r
	})
	for i := s.running; i < queues && c.transport != Running; i++ {
		for len(s.all[i].reqs) > s.all[i].out {
			if err := s.post(i, s.room(i, w.Depth)); err != nil {
				end()
				return nil, nil, err
			}
		}
	}
	return s, end, nil
}

func (s *verbsSender) send(_ uint64, n int) error {
	size := s.v.w.Size
	for n > 0 {
		list, err := s.turns(n)
		if err != nil {
			return err
		}
		d := &s.all[s.turn]
		for s.credits != nil && d.number+uint64(len(list)) > s.granted {
			if err := s.grants(); err != nil {
				return err
			}
		}
		at := s.turn*len(d.reqs) + d.next
		for i := range list {
			putNumber(s.v.mem[(at+i)*size:][:size], d.number+uint64(i))
		}
		if err := s.post(s.turn, list); err != nil {
			return err
		}
		n -= len(list)
		s.turn = (s.turn + 1) % s.running
	}
	return nil
}

// turns waits for the next of the queues that have room, and returns a list for it.
func (s *verbsSender) turns(n int) ([]iwarp.WorkRequest, error) {
	for full := 1; ; full++ {
		if list := s.room(s.turn, n); list != nil {
			return list, nil
		}
		s.turn = (s.turn + 1) % s.running
		if full%s.running == 0 {
			if err := s.reap(); err != nil {
				return nil, err
			}
		}
	}
}

// grants waits for the server to have posted more.
func (s *verbsSender) grants() error {
	k, err := s.v.take(s.v.recv, s.grant[:])
	if err != nil {
		return err
	}
	last := s.credits.memory(&s.grant[k-1])
	if len(last) != numberEnd {
		return fmt.Errorf("a grant of %d bytes", len(last))
	}
	s.granted = binary.LittleEndian.Uint64(last) + uint64(s.v.w.receives())
	return s.credits.repost(k)
}

// flush of Writes reads all their numbers back, which a peer answers when it has placed
// everything that was sent before (RFC 5040 section 5.5). Of Sends the receivers confirm.
func (s *verbsSender) flush() error {
	w, d := s.v.w, &s.all[0]
	if w.Op != OpWrite {
		return nil
	}
	if err := s.drain(); err != nil {
		return err
	}
	places := uint64(len(d.reqs))
	written := min(places, d.number)
	n := min(numberEnd, w.Size)
	back := len(d.reqs) * w.Size // offset in our region where the numbers go
	for i := range int(written) {
		r := s.v.remoteRequest(iwarp.OpRead, back+i*numberEnd, i*w.Size, n)
		r.ID, r.Flags = 1, iwarp.Signaled
		if _, err := s.v.qp.PostSend(r); err != nil {
			return err
		}
		d.out++
	}
	if err := s.drain(); err != nil {
		return err
	}
	for k := range written {
		m := d.number - 1 - k // the last written to its place
		if err := checkMessage(s.v.mem[back+int(m%places)*numberEnd:][:n], n, m); err != nil {
			return fmt.Errorf("memory written to: %w", err)
		}
	}
	return nil
}

func (s *verbsSender) recv(uint64) error { return errors.ErrUnsupported } // messages one way
