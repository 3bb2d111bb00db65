//go:build !live

package iwarp

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// stuffed is a connection whose peer reads nothing while our side owes it a
// response that no socket holds.
func stuffed(t *testing.T, own SharedParams) (*extended, *end) {
	t.Helper()
	e := newEnd(t, openDevice(t, Config{EventLoops: 1, SendBuffer: 32 << 10, CloseTimeout: 50 * time.Millisecond}), QPConfig{})
	x := openExtended(t, e, true, allCaps, own)
	big := e.reg(32<<20, mr.RemoteRead)
	x.raw.send(x.read(rdmap.ReadRequest{SinkSTag: 1, Size: 32 << 20, SourceSTag: uint32(big.Key()), SourceTO: big.Base()}))
	return x, e
}

// A peer that provokes more than it reads loses the connection: refusals of
// queues there are not or that have no memory, refused Writes, and
// acknowledgements that nobody has time to look at.
func TestPeerThatDoesNotReadIsBounded(t *testing.T) {
	for name, once := range map[string]func(x *extended, i int) []byte{
		"unknown queues": func(x *extended, i int) []byte {
			return x.frame(x.message(xctl.SRQN(1000+i), 0, true, nil))
		},
		"queue without memory": func(x *extended, i int) []byte {
			b := x.frame(x.message(1, 0, true, nil))
			return append(b, x.frame(x.tell(xctl.Resume{SRQ: 1, MSN: x.next[1] + 1}))...)
		},
		"refused Writes": func(x *extended, i int) []byte {
			return x.frame(write(0x1234, 0, []byte("x")))
		},
		"acknowledgements": func(x *extended, i int) (b []byte) {
			var list []xctl.Record
			for range 30 {
				list = append(list, xctl.Credit{SRQ: 9, Delivered: 0, Limit: 100})
			}
			for range 10 {
				b = append(b, x.frame(x.tell(list...))...)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
				x, e := stuffed(t, SharedParams{Errors: -1})
				x.queues.srq(e, 1, SRQConfig{})
				x.flood(func(i int) []byte { return once(x, i) })
			})
		})
	}
}

// PINGs, unknown records and acknowledgements of queues that exist cost nothing
// that stays, whether the peer reads or not.
func TestFloodOfPingsIsAbsorbed(t *testing.T) {
	memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
		x, e := stuffed(t, SharedParams{})
		mem := e.reg(64, mr.LocalWrite)
		s := x.queues.srq(e, 1, SRQConfig{MaxReceive: 1})
		before := inUse()
		for i := range 20_000 {
			x.write(x.frame(x.tell(xctl.Ping{Nonce: uint64(i)}, xctl.Pong{Nonce: uint64(i)}, xctl.SRQ{SRQ: 3, State: xctl.SRQGone})))
		}
		for range 100 { // acknowledgements that we owe
			e.give(s, 1, mem.SGE(0, 8))
			x.raw.send(x.message(1, 0, true, nil))
			e.want(1, Success, OpReceive)
		}
		if after := inUse(); after > before+8<<20 {
			t.Fatalf("%d KiB more", (after-before)>>10)
		}
		x.data = func(s rdmap.Segment) {}
		x.sync() // and all of the response comes
		if l := has[xctl.Pong](x); len(l) > 100 {
			t.Fatalf("%d answers", len(l))
		}
		var delivered uint32
		for _, c := range has[xctl.Credit](x) {
			delivered = max(delivered, c.Delivered)
		}
		if delivered < 100 {
			delivered = await[xctl.Credit](x).Delivered
		}
		if delivered != 100 {
			t.Fatalf("%d of 100 messages acknowledged", delivered)
		}
	})
}

// A RESUME leaves before the message that it speaks of, however much else there
// is to say; else the peer would drop that message and be right to hang up.
func TestResumeGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1, MaxULPDU: 128, SendBuffer: 16 << 10}), QPConfig{})
		x := openExtended(t, e, true, allCaps, SharedParams{Errors: -1})
		big := e.reg(1<<20, mr.RemoteRead)
		for i := range uint64(3) {
			e.send(WorkRequest{ID: i, Queue: 5, Flags: Signaled, Inline: []byte("message")})
			x.incoming(rdmap.OpSend)
		}
		// While the transmitter is busy the queue is stopped, its time passes, and
		// a thousand refusals pile up.
		x.raw.send(x.read(rdmap.ReadRequest{SinkSTag: 1, Size: 1 << 20, SourceSTag: uint32(big.Key()), SourceTO: big.Base()}),
			x.tell(xctl.NAK{SRQ: 5, MSN: 1, Code: xctl.NAKNotReady, Info: 4}))
		for i := range xctl.SRQN(1000) {
			x.raw.send(x.message(1000+i, 0, true, nil))
		}
		resumed, replayed := false, 0
		x.data = func(s rdmap.Segment) {
			if s.Op == rdmap.OpSend {
				if len(has[xctl.Resume](x)) > 0 {
					resumed = true
				}
				if replayed++; !resumed {
					t.Errorf("message %d before the RESUME", s.Untagged.MSN)
				}
			}
		}
		for replayed < 1 && !t.Failed() {
			s, other, err := x.take()
			must(t, err)
			if other {
				x.data(s)
			}
		}
	})
}

// A queue that the peer has stopped for a minute does not hold up what we owe it.
func TestStopDoesNotDelayCredits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, mem := sharedPeer(t, true, SharedParams{})
		s := x.queues.srq(e, 1, SRQConfig{})
		for i := range uint64(10) {
			e.give(s, i, mem.SGE(0, 8))
		}
		e.send(WorkRequest{ID: 100, Queue: 5, Inline: []byte("x")})
		x.incoming(rdmap.OpSend)
		stop := x.tell(xctl.NAK{SRQ: 5, MSN: 1, Code: xctl.NAKNotReady, Backoff: 65535, Info: 4})
		b := append(x.frame(x.message(1, 0, true, nil)), x.frame(stop)...)
		b = append(b, x.frame(x.tell(xctl.Pong{}))...)
		x.write(b)                                        // one burst
		if c := await[xctl.Credit](x); c.Delivered != 1 { // in half that time
			t.Fatalf("%+v", c)
		}
	})
}

// Several Pings at once are all answered, though only one is sent.
func TestConcurrentPings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, _ := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		must(t, client.qp.Ping(within(t))) // the server has heard it then
		errs := make(chan error)
		ctx := within(t)
		for range 50 {
			go func() { errs <- client.qp.Ping(ctx) }()
			go func() { errs <- server.qp.Ping(ctx) }()
		}
		for range 100 {
			must(t, <-errs)
		}
	})
}

// The peer's NAKs, one for every message and then some.
func TestStormOfNAKs(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, _ := sharedPeer(t, initiator, SharedParams{})
		const rounds = 500
		for i := range uint64(rounds) {
			e.send(WorkRequest{ID: i, Queue: 5, Flags: Signaled, Inline: []byte("x")})
			h := x.incoming(rdmap.OpSend).Untagged
			if i%2 == 0 { // stopped, and sent again at once
				x.raw.send(x.tell(xctl.NAK{SRQ: 5, MSN: h.MSN, Code: xctl.NAKNotReady, Info: h.MSN + 4}))
				if r := await[xctl.Resume](x); r.MSN != h.MSN+1 {
					t.Fatalf("%+v", r)
				}
				h = x.incoming(rdmap.OpSend).Untagged
			}
			code := xctl.NAKCode(1 + i%255)
			if code == xctl.NAKNotReady {
				code = 9
			}
			x.raw.send(x.tell(xctl.NAK{SRQ: 5, MSN: h.MSN, Code: code}, xctl.Credit{SRQ: 5, Delivered: h.MSN, Limit: h.MSN + 4}))
			if c := e.next(); c.ID != i || c.Status == Success || c.Status == Flushed {
				t.Fatalf("%+v", c)
			}
		}
		x.raw.send(x.tell(xctl.NAK{SRQ: 5, MSN: 1, Code: xctl.NAKUnknown}))
		x.terminated(rdmap.CauseStreamCatastrophic)
	})
}

// Numbers of queues that came and went do not use up what a connection keeps
// track of.
func TestQueuesComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, mem := sharedPeer(t, true, SharedParams{MaxQueues: 8})
		for n := uint32(1); n <= 100; n++ {
			s := x.queues.srq(e, n, SRQConfig{})
			e.give(s, uint64(n), mem.SGE(0, 8))
			x.raw.send(x.message(xctl.SRQN(n), 0, true, nil))
			e.want(uint64(n), Success, OpReceive)
			x.queues.end(t, s)
		}
		for n := uint32(201); n <= 209; n++ {
			e.give(x.queues.srq(e, n, SRQConfig{}), uint64(n), mem.SGE(0, 8))
			x.raw.send(x.message(xctl.SRQN(n), 0, true, nil))
		}
		for n := uint32(201); n <= 208; n++ {
			e.want(uint64(n), Success, OpReceive)
		}
		if nak := await[xctl.NAK](x); nak.SRQ != 209 || nak.Code != xctl.NAKUnknown {
			t.Fatalf("%+v", nak)
		}
	})
}

// As many queues as are agreed on, all in use.
func TestFourThousandQueues(t *testing.T) {
	memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		client.qp.cfg.SignalAll = true
		mem := server.reg(64, mr.LocalWrite)
		const all = xctl.DefaultMaxSRQ
		for n := uint32(1); n <= all; n++ {
			queues.srq(server, n, SRQConfig{MaxReceive: 2})
		}
		for range 2 {
			for n := uint32(1); n <= all; n += 64 {
				for i := n; i < n+64; i++ {
					client.send(WorkRequest{ID: uint64(i), Queue: i, Inline: []byte("x")})
				}
				for i := n; i < n+64; i++ { // they are dry until now
					server.give(queues.Find(i), uint64(i), mem.SGE(0, 8))
				}
				for range 64 {
					if c := server.next(); c.Status != Success || uint64(c.Queue) != c.ID {
						t.Fatalf("%+v", c)
					}
					if c := client.next(); c.Status != Success {
						t.Fatalf("%+v", c)
					}
				}
			}
		}
	})
}

// A kick would be a Write that the peer counts and we do not, and so would be the
// first Write of a peer-to-peer connection.
func TestWritesOfTheSetUpAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, mem := sharedHost(t)
		l := listenRaw(t)
		done := connecting(t, e, l.addr(), ConnParams{Guard: -1, PeerToPeer: true, Shared: &SharedParams{Queues: &queueMap{}, Send: true, Require: true}})
		p := l.accept()
		f := p.setup()
		r := reply(true)
		prefix := f.Private[:4:4]
		prefix[0] = 0x80 | prefix[0]&0x3f
		prefix[2] = 0x80 | prefix[2]&0x3f // by a Write
		r.Private = (&xctl.Block{Caps: allCaps, MaxSRQ: 1, MaxULPDU: 65535, Credit: 1}).AppendTo(prefix)
		p.write(r.AppendTo(nil))
		p.opened(f, r)
		must(t, <-done)
		if s := p.segment(rdmap.OpWrite); len(s.Payload) != 0 {
			t.Fatal("no RTR")
		}
		e.send(WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 5},
			WorkRequest{ID: 2, Op: OpWrite, Flags: Signaled, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 5})
		p.segment(rdmap.OpWrite)
		p.segment(rdmap.OpWrite)
		u := xctl.AppendTo(xctl.Header(1).AppendTo(nil), xctl.WriteError{Ordinal: 2, Cause: rdmap.CauseDDPBounds})
		p.send(u)
		p.send(xctl.AppendTo(xctl.Header(2).AppendTo(nil), xctl.WriteAck{Ordinal: 3}))
		e.want(1, RemoteAccess, OpWrite)
		e.want(2, Success, OpWrite)
		if e.qp.stream.kick != nil {
			t.Fatal("the peer will be kicked")
		}
	})
}

// Outstanding requests are counted the same wherever they wait.
func TestMaxSendCountsMessagesInQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dev := openDevice(t, Config{EventLoops: 1})
		e := newEnd(t, dev, QPConfig{MaxSend: 8})
		x := openExtended(t, e, true, allCaps, SharedParams{})
		msg := WorkRequest{ID: 1, Queue: 5, Flags: Signaled, Inline: []byte("x")}
		for range uint32(3) { // the counts come back
			base := x.next[0x123] // of what was sent to queue 5 before
			e.send(msg, msg, msg, msg, msg)
			for range 4 {
				x.incoming(rdmap.OpSend)
			}
			e.send(msg, msg, msg) // like the fifth beyond the credit
			if _, err := e.qp.PostSend(msg); err != ErrQueueFull {
				t.Fatalf("%v", err)
			}
			x.raw.send(x.tell(xctl.Credit{SRQ: 5, Delivered: base + 2, Limit: base + 14}))
			for range 2 {
				e.want(1, Success, OpSend)
			}
			for range 4 {
				x.incoming(rdmap.OpSend)
			}
			e.send(msg, msg)
			if _, err := e.qp.PostSend(WorkRequest{Op: OpWrite, Inline: []byte("x")}); err != ErrQueueFull {
				t.Fatalf("%v", err)
			}
			for range 2 {
				x.incoming(rdmap.OpSend)
			}
			x.raw.send(x.tell(xctl.Credit{SRQ: 5, Delivered: base + 10, Limit: base + 14}))
			for range 8 {
				e.want(1, Success, OpSend)
			}
			x.next[0x123] += 10
		}
	})
}

// Who asks to be woken later does not put off a time that has come, and that the clock
// is late with.
func TestLaterWakeKeepsTheOverdueOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		x.sync()
		e.quiet()
		flushes := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.flushes
		}
		e.qp.mu.Lock()
		s := e.qp.stream
		now := time.Now()
		s.shared.timer, s.shared.wakeAt = time.AfterFunc(time.Hour, func() {}), now.Add(-time.Second)
		before := flushes()
		s.shared.wakeAtLocked(s, now, now.Add(time.Hour))
		e.qp.mu.Unlock()
		eventually(t, "the event loop is woken", func() bool { return flushes() > before })
	})
}
