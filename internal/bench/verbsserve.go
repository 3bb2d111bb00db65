package bench

import (
	"encoding/binary"
	"net/netip"

	"github.com/rds-go/rds/transport/iwarp"
)

// serveVerbs listens on ip and serves an RDMA work on one connection.
func serveVerbs(ip netip.Addr, w *Work, o *TCPSettings, fail func(error)) (*service, error) {
	n := w.Depth * w.Size
	switch {
	case w.PingPong && w.Op != OpRead:
		n = pingRegion(w.Size)
	case w.Queues > 0:
		n = w.Queues * w.queueReceives() * w.Size
	case w.Op == OpSend:
		n = w.receives() * w.Size
	case w.Op == OpRead:
		n = w.blocks() * w.Size
	}
	v, s, l, err := listenVerbs(ip, w, o, n, fail)
	if err != nil {
		return nil, err
	}
	if w.Queues > 0 {
		if err := v.sinkQueues(s); err != nil {
			s.close()
			return nil, err
		}
	}
	s.run(func() error { return ungone(v.serve(l, s.tally)) })
	return s, nil
}

// listenVerbs opens the server's end of a work, with n bytes of memory.
func listenVerbs(ip netip.Addr, w *Work, o *TCPSettings, n int, fail func(error)) (*verbs, *service, *iwarp.Listener, error) {
	v, err := openVerbs(w, o, n)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := v.dev.Listen(netip.AddrPortFrom(ip, 0))
	if err != nil {
		v.close()
		return nil, nil, nil, err
	}
	s := &service{tally: newTally(), fail: fail, addrs: []netip.AddrPort{l.Addr()}}
	s.own(closer(v.close))
	return v, s, l, nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

func (v *verbs) serve(l *iwarp.Listener, t *tally) error {
	switch {
	case v.w.Op == OpRead:
		fillBlocks(v.mem, v.w.Size)
	case v.w.PingPong:
		return v.echo(l)
	case v.w.Op == OpSend && v.w.Queues == 0:
		return v.sink(l, t)
	}
	if err := v.accept(l); err != nil {
		return err
	}
	return v.qp.Wait(v.ctx)
}

// fillBlocks writes into each block its number.
func fillBlocks(mem []byte, size int) {
	for i := 0; (i+1)*size <= len(mem); i++ {
		putNumber(mem[i*size:], uint64(i))
	}
}

// receiver keeps receive requests posted, of one size, and in order.
type receiver struct {
	v    *verbs
	cq   *iwarp.CQ
	post func(...iwarp.ReceiveRequest) (int, error)
	reqs []iwarp.ReceiveRequest
	at   int // offset in the region of the requests' memory
	size int
	next int // index of the request that completes next
}

// newReceiver posts n requests to the queue pair, for memory of the region from byte at on.
func newReceiver(v *verbs, at, size, n int) (*receiver, error) {
	return newReceiverOf(v, v.recv, v.qp.PostReceive, at, size, n)
}

// newReceiverOf is newReceiver for another queue.
func newReceiverOf(v *verbs, cq *iwarp.CQ, post func(...iwarp.ReceiveRequest) (int, error), at, size, n int) (*receiver, error) {
	r := &receiver{v: v, cq: cq, post: post, reqs: make([]iwarp.ReceiveRequest, n), at: at, size: size}
	for i := range r.reqs {
		r.reqs[i] = iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{v.region.SGE(at+i*size, size)}}
	}
	_, err := post(r.reqs...)
	return r, err
}

// memory is what the message of a completion was placed in.
func (r *receiver) memory(c *iwarp.Completion) []byte {
	return r.v.mem[r.at+int(c.ID)*r.size:][:c.Len]
}

// repost posts the n requests that completed first again, as a list.
func (r *receiver) repost(n int) error {
	for n > 0 {
		k := min(n, len(r.reqs)-r.next)
		if _, err := r.post(r.reqs[r.next : r.next+k]...); err != nil {
			return err
		}
		r.next = (r.next + k) % len(r.reqs)
		n -= k
	}
	return nil
}

// serve has each message that comes checked, up to n in a row. When their requests are posted
// again they are counted, and after is called with their number.
func (r *receiver) serve(n int, t *tally, check func(m []byte) error, after func(n int) error) error {
	comps := make([]iwarp.Completion, n)
	for {
		k, err := r.v.take(r.cq, comps)
		if err != nil {
			return err
		}
		for i := range comps[:k] {
			if err := check(r.memory(&comps[i])); err != nil {
				return err
			}
		}
		if err := r.repost(k); err != nil {
			return err
		}
		t.add(k)
		if err := after(k); err != nil {
			return err
		}
	}
}

// sink counts messages and checks their numbers, as serve does.
func (r *receiver) sink(t *tally, after func(n uint64) error) error {
	var n uint64
	return r.serve(max(r.v.w.Batch, 1), t, func(m []byte) error {
		n++
		return checkMessage(m, r.size, n-1)
	}, func(int) error { return after(n) })
}

// sink tells the client each time a quarter of the receive requests has been posted again: iWARP
// has no flow control of messages, one that finds no request ends the connection.
func (v *verbs) sink(l *iwarp.Listener, t *tally) error {
	r, err := newReceiver(v, 0, v.w.Size, v.w.receives())
	if err != nil {
		return err
	}
	if err := v.accept(l); err != nil {
		return err
	}
	var told uint64
	var done [credits]iwarp.Completion
	var credit [numberEnd]byte
	return r.sink(t, func(n uint64) error {
		if n-told < uint64(len(r.reqs)/4) {
			return nil
		}
		told = n
		binary.LittleEndian.PutUint64(credit[:], n)
		v.send.Poll(done[:]) // takes completions of earlier grants
		_, err := v.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpSend, Flags: iwarp.Signaled, Inline: credit[:]})
		return err
	})
}
