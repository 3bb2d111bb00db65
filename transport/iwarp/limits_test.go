//go:build !live

package iwarp

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// No more reads and atomics are under way than the peer can hold (RFC 5040
// section 6.5), and what comes behind the first that must wait waits as well.
func TestORDIsObeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, crc := range []bool{true, false} {
			e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{SignalAll: true})
			m := e.reg(4096, allRights)
			f := reply(crc)
			f.Private = (&mpa.Prefix{IRD: 2, ORD: 2}).AppendTo(nil)
			p := rawResponder(t, e, f, ConnParams{NoCRC: !crc, Guard: -1, ORD: 16})
			if e.est.ORD != 2 {
				t.Fatalf("established: %+v", e.est)
			}
			p.send(emptyWrite())
			for i := range 6 {
				e.send(WorkRequest{ID: uint64(i), Op: OpRead, SGE: []SGE{m.SGE(8*i, 8)}, RemoteKey: 5, RemoteAddr: uint64(i)})
			}
			e.send(WorkRequest{ID: 6, Inline: []byte("behind")})
			var open []rdmap.Segment
			take := func() { open = append(open, p.segment(rdmap.OpReadRequest)) }
			take()
			take()
			p.silent(20 * time.Millisecond)
			for i := range 6 {
				p.send(answer(open[i], fmt.Appendf(nil, "answer %d", i)))
				e.want(uint64(i), Success, OpRead)
				if i < 4 {
					take()
				}
				if i == 3 {
					p.segment(rdmap.OpSend) // the last read has started, so the send may
				}
			}
			e.want(6, Success, OpSend)
			if string(m.Bytes()[40:48]) != "answer 5" {
				t.Errorf("%q", m.Bytes()[:48])
			}
		}
	})
}

// A fence holds a request until all earlier reads are answered, whole.
func TestFenceWaitsForReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, op := range []Op{OpSend, OpWrite, OpRead, OpImmediate} {
			e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{SignalAll: true})
			m := e.reg(4096, allRights)
			p := openRaw(t, e, false, true)
			p.send(emptyWrite())
			read := WorkRequest{Op: OpRead, SGE: []SGE{m.SGE(0, 8)}, RemoteKey: 5}
			fenced := WorkRequest{ID: 2, Op: op, Flags: Fence}
			e.send(read, WorkRequest{ID: 1, Op: OpFetchAdd, SGE: []SGE{m.SGE(8, 8)}}, fenced)
			first, second := p.segment(rdmap.OpReadRequest), p.segment(rdmap.OpAtomicRequest)
			p.silent(15 * time.Millisecond)
			r := answer(first, []byte("12345678"))
			r[0] &^= 0x40
			p.send(r[:18]) // half of it
			p.silent(5 * time.Millisecond)
			var req rdmap.ReadRequest
			_ = req.Decode(first.Payload)
			p.send(tagged(rdmap.OpReadResponse, req.SinkSTag, req.SinkTO+4, true, []byte("5678")))
			e.want(0, Success, OpRead)
			p.silent(5 * time.Millisecond)
			var atomic rdmap.AtomicRequest
			_ = atomic.Decode(second.Payload)
			p.send(untagged(rdmap.OpAtomicResponse, 3, 1, 0, true, rdmap.AtomicResponse{ID: atomic.ID, Value: 1}.AppendTo(nil)))
			e.want(1, Success, OpFetchAdd)
			wire := map[Op]rdmap.Op{OpSend: rdmap.OpSend, OpWrite: rdmap.OpWrite, OpRead: rdmap.OpReadRequest, OpImmediate: rdmap.OpImmediate}[op]
			s := p.segment(wire)
			if op == OpRead {
				p.send(answer(s, nil))
			}
			e.want(2, Success, op)
		}
	})
}

// A peer that asks for more reads at a time than were agreed on is refused; as
// many as were agreed on, rounded up to a power of two, are served.
func TestIRDOverrun(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for _, atomic := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("crc %v, atomic %v", crc, atomic), func(t *testing.T) {
				// The socket must be full before the answers are out.
				e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 16 << 10}), QPConfig{})
				m := e.reg(16<<20, allRights)
				f := request(crc)
				f.Private = (&mpa.Prefix{IRD: 3, ORD: 3}).AppendTo(nil)
				p := rawInitiator(t, e, f, ConnParams{NoCRC: !crc, IRD: 3})
				big := rdmap.ReadRequest{Size: 16 << 20, SourceSTag: uint32(m.Key()), SourceTO: m.Base()}
				p.send(p.read(big), p.read(rdmap.ReadRequest{}), p.read(rdmap.ReadRequest{}), p.read(rdmap.ReadRequest{}))
				p.send(write(uint32(m.Key()), m.Base(), []byte("alive")))
				if atomic {
					r := rdmap.AtomicRequest{STag: uint32(m.Key()), TO: m.Base() + 64, Add: 1, CompareMask: ^uint64(0)}
					p.send(untagged(rdmap.OpAtomicRequest, 1, p.nextMSN(1), 0, true, r.AppendTo(nil)))
				} else {
					p.send(p.read(rdmap.ReadRequest{}))
				}
				if err := e.ended(); !errors.Is(err, rdmap.CauseStreamCatastrophic) {
					t.Fatal(err)
				}
				if string(m.Bytes()[:5]) != "alive" || m.Bytes()[64] != 0 {
					t.Errorf("memory: %q, %d", m.Bytes()[:5], m.Bytes()[64])
				}
				p.terminate(rdmap.CauseStreamCatastrophic)
			})
		}
	}
}

// A connection without reads serves none.
func TestIRDOfNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		f := request(true)
		f.Private = (&mpa.Prefix{IRD: 4}).AppendTo(nil)
		p := rawInitiator(t, e, f, ConnParams{IRD: -1, ORD: -1})
		p.send(p.read(rdmap.ReadRequest{}))
		p.terminate(rdmap.CauseStreamCatastrophic)
		// And makes none: the read fails here, what was posted before it leaves.
		e = newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
		p = rawInitiator(t, e, f, ConnParams{IRD: -1, ORD: -1})
		p.send(emptyWrite())
		e.send(WorkRequest{ID: 1, Flags: Signaled, Inline: []byte("before")}, WorkRequest{ID: 2, Op: OpRead}, WorkRequest{ID: 3})
		p.segment(rdmap.OpSend)
		e.want(1, Success, OpSend)
		e.want(2, LocalQPError, OpRead)
		e.want(3, Flushed, OpSend)
		p.closed()
	})
}

// Each completion has its place, or the queue and all its queue pairs are lost;
// others are not.
func TestCQOverrun(t *testing.T) {
	t.Parallel()
	for name, initial := range map[string]int{"receives": 4, "sends": 0} {
		inBubble(t, name, func(t *testing.T) {
			events := make(chan Event, 16)
			d := openDevice(t, Config{EventLoops: 1, OnEvent: func(e Event) { events <- e }})
			e := newEnd(t, d, QPConfig{})
			small, err := d.CreateCQ(4)
			must(t, err)
			var pairs [2]*end
			for i := range pairs {
				pairs[i] = newEnd(t, d, QPConfig{})
				pairs[i].pd = e.pd
				pairs[i].qp, err = e.pd.CreateQP(QPConfig{SendCQ: small, RecvCQ: small})
				must(t, err)
			}
			m := e.reg(64, allRights)
			p, bystander, other := openRaw(t, pairs[0], true, true), openRaw(t, pairs[1], true, true), openRaw(t, e, true, true)
			p.send(emptyWrite())
			for i := range initial {
				pairs[0].post(uint64(i), m.SGE(0, 8))
				p.send(p.sendMessage(nil))
			}
			for i := range 5 - initial {
				pairs[0].send(WorkRequest{ID: uint64(i), Flags: Signaled, Inline: []byte("x")})
			}
			for _, v := range pairs {
				wantErr(t, "the queue pair", v.ended(), ErrOverrun)
			}
			if ev := <-events; ev.Kind != EventCQError || ev.CQ != small {
				t.Errorf("event %+v", ev)
			}
			p.gone()
			bystander.gone()
			// Of a batch that does not fit nothing is there.
			for list := make([]Completion, 10); ; {
				if n := small.Poll(list); n == 0 {
					break
				} else if list[n-1].Status != Success {
					t.Errorf("%+v", list[:n])
				}
			}
			wantErr(t, "Wait", small.Wait(within(t)), ErrOverrun)
			e.post(9, m.SGE(0, 8))
			other.send(other.sendMessage(nil))
			e.want(9, Success, OpReceive)
		})
	}
}

// Posting beyond a queue's size takes what fits and says so; bad requests are
// refused before they are queued.
func TestPostLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := openDevice(t, Config{EventLoops: 1})
		e := newEnd(t, d, QPConfig{MaxSend: 4, MaxReceive: 3, MaxInline: 16})
		if n, err := e.qp.PostSend(WorkRequest{}); n != 0 || !errors.Is(err, ErrState) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("posted before the connection: %d, %v", n, err)
		}
		recv := make([]ReceiveRequest, 5)
		for i := range recv {
			recv[i].ID = uint64(100 + i)
		}
		if n, err := e.qp.PostReceive(recv...); n != 3 || !errors.Is(err, ErrQueueFull) || !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("posted %d receives: %v", n, err)
		}
		if n, err := e.qp.PostReceive(ReceiveRequest{SGE: make([]SGE, MaxSGE+1)}); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a receive with too many pieces: %d, %v", n, err)
		}
		p := openRaw(t, e, true, true) // nothing leaves before p has spoken
		good, bad := WorkRequest{ID: 1, Flags: Signaled}, WorkRequest{Inline: make([]byte, 17)}
		// The first of the list is taken, what follows the bad one is not.
		if n, err := e.qp.PostSend(good, bad, good); n != 1 || !errors.Is(err, syscall.EINVAL) || errors.Is(err, ErrState) {
			t.Errorf("good, bad, good: %d, %v", n, err)
		}
		if n, err := e.qp.PostSend(good, good, good, good); n != 3 || !errors.Is(err, ErrQueueFull) {
			t.Errorf("posted %d of 4 to 3 places: %v", n, err)
		}
		p.send(emptyWrite())
		for range 4 {
			e.want(1, Success, OpSend)
		}
		if n, err := e.qp.PostSend(good); n != 1 || err != nil {
			t.Errorf("posted to the empty queue: %d, %v", n, err)
		}
		e.want(1, Success, OpSend)
		must(t, e.qp.Disconnect())
		if n, err := e.qp.PostSend(good); err == nil && n == 1 {
			// The peer's end may have come already: then it is flushed.
			if c := e.next(); c.Status != Flushed {
				t.Errorf("posted after Disconnect: %+v", c)
			}
		} else if !errors.Is(err, ErrState) {
			t.Errorf("posted after Disconnect: %d, %v", n, err)
		}
	})
}

// A completion queue makes its memory when it is used, and keeps the order.
func TestCompletionQueueGrows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 3 * firstEntries
		c, err := openDevice(t, Config{EventLoops: 1}).CreateCQ(size)
		must(t, err)
		var pushed, polled uint64
		push := func(n int) {
			list := make([]Completion, n)
			for i := range list {
				list[i].ID = pushed
				pushed++
			}
			c.Push(list...)
		}
		poll := func(n int) {
			list := make([]Completion, n)
			if got := c.Poll(list); got != n {
				t.Fatalf("%d completions of %d", got, n)
			}
			for i := range list {
				if list[i].ID != polled {
					t.Fatalf("completion %d in place of %d", list[i].ID, polled)
				}
				polled++
			}
		}
		push(firstEntries - 2)
		poll(firstEntries - 4)
		push(firstEntries - 2) // goes round the end of the ring
		if n := len(c.ring); n != firstEntries {
			t.Fatalf("the ring has %d entries for %d completions", n, firstEntries)
		}
		push(size - firstEntries)
		if n := len(c.ring); n != size {
			t.Fatalf("the ring has %d entries of %d", n, size)
		}
		poll(size)
		push(size + 1)
		if err := c.Wait(within(t)); err != ErrOverrun {
			t.Fatalf("more completions than the queue has entries: %v", err)
		}
	})
}
