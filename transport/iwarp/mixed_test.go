//go:build !live

package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Queues of both kinds share a connection: frames to two queues with a sink, messages to a
// queue with receives, and messages to one that is dry and is refused all the while. The
// sink is given all frames in their order, the messages of the queue with receives complete
// in theirs, and those of the dry one when it gets memory.
func TestQueuesOfBothKindsShareAConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, crc := range []bool{true, false} {
			const rounds, dry, wet = 300, 1, 2
			ends, sinks, queues, terms := mixedEnds(t, crc)
			client, server := ends[0], ends[1]
			scq, err := server.dev.CreateCQ(4 * rounds)
			must(t, err)
			dst, src := server.reg(1<<16, mr.LocalWrite), client.reg(1<<16, 0)
			srqs := [2]*SRQ{queues[1].srq(server, dry, SRQConfig{CQ: scq, MaxReceive: 1024}), queues[1].srq(server, wet, SRQConfig{CQ: scq, MaxReceive: 1024})}
			connectEnds(t, client, server, terms[0], terms[1])
			for _, e := range ends {
				e.qp.SinkReady()
			}
			for i := range uint64(rounds) {
				server.give(srqs[1], i, dst.SGE(0, 64))
			}
			var want []byte
			for i := range rounds {
				msg := bytes.Repeat([]byte{byte(i)}, 1+i*i%9000)
				want = append(want, msg...)
				at := 4 * i
				binary.BigEndian.PutUint32(src.Bytes()[at:], uint32(i))
				client.send(WorkRequest{ID: uint64(i), Flags: Signaled, Queue: dry, SGE: []SGE{src.SGE(at, 4)}},
					WorkRequest{ID: 1000 + uint64(i), Flags: Signaled, Queue: wet, SGE: []SGE{src.SGE(at, 4)}})
				must(t, client.sendWhole(messageTo(sinkNum+uint32(i&1), msg), sinks[0]))
				client.want(1000+uint64(i), Success, OpSend)
			}
			if !holds(func() bool { return client.qp.FramesAcked() == uint64(len(want)) }) {
				t.Fatalf("%d of %d octets acknowledged; %v", client.qp.FramesAcked(), len(want), client.qp.Err())
			}
			if !bytes.Equal(sinks[1].taken(), want) {
				t.Error("the sink has other octets than were sent")
			}
			for i := range uint64(rounds) {
				server.give(srqs[0], 5000+i, dst.SGE(0, 64))
			}
			for i := range uint64(rounds) {
				client.want(i, Success, OpSend)
			}
			takeInOrder(t, scq, 2*rounds)
		}
	})
}

// mixedEnds makes two ends that are not yet connected, each with a sink and two queues with it.
func mixedEnds(t *testing.T, crc bool) (ends [2]*end, sinks [2]*sinkRecorder, queues [2]*queueMap, terms [2]ConnParams) {
	for i := range ends {
		ends[i] = newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{MaxSend: 1024})
		sinks[i], queues[i] = newSinkRecorder(t), &queueMap{}
		for n := range uint32(2) {
			queues[i].srq(ends[i], sinkNum+n, SRQConfig{Sink: true})
		}
		terms[i] = ConnParams{NoCRC: !crc, Shared: &SharedParams{Queues: queues[i], Send: true, Sink: sinks[i], Require: true}}
	}
	return ends, sinks, queues, terms
}

// sendWhole sends a frame whose call may take it in parts; d is told when the next one is due.
func (e *end) sendWhole(frame transport.Frame, d *sinkRecorder) error {
	for n := 0; n < frame.Size(); {
		m, err := e.frames([]transport.Frame{frame})
		if n += m; err != nil {
			return err
		}
		if n < frame.Size() {
			wait(e.t, d.writable, "Writable")
		}
	}
	return nil
}

// takeInOrder takes n completions of messages, those of each queue in the order of its messages.
func takeInOrder(t *testing.T, cq *CQ, n int) {
	next := map[uint32]uint32{}
	for got := 0; got < n; {
		var list [64]Completion
		k := cq.Poll(list[:])
		for _, c := range list[:k] {
			next[c.Queue]++
			if c.Status != Success || c.Serial < next[c.Queue] {
				t.Fatalf("queue %d: message %d, %v, after %d", c.Queue, c.Serial, c.Status, next[c.Queue])
			}
			next[c.Queue] = c.Serial
		}
		if got += k; k == 0 {
			must(t, cq.Wait(within(t)))
		}
	}
}

// A queue that is dry, its NAK and the RESUME after it do not touch the numbers of queues
// with a sink, nor these those of the dry one; each queue has CREDITs of its own.
func TestNAKDoesNotDisturbSinks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, true)
		mem := e.reg(1<<16, allRights)
		srq := x.queues.srq(e, 1, SRQConfig{})
		e.qp.SinkReady()
		x.raw.send(
			x.message(sinkNum, 0, false, []byte("one ")),
			x.message(1, 0, true, []byte("refused")),
			x.message(sinkNum, 4, true, []byte("two ")),
			x.message(1, 0, true, []byte("dropped")),
			x.message(sinkNum+1, 0, true, []byte("three")),
		)
		x.sync()
		if naks := has[xctl.NAK](x); len(naks) != 1 || naks[0].SRQ != 1 || naks[0].MSN != 1 || naks[0].Code != xctl.NAKNotReady {
			t.Fatalf("%+v", naks)
		}
		if got := string(d.taken()); got != "one two three" {
			t.Errorf("%q", got)
		}
		e.give(srq, 1, mem.SGE(0, 100))
		for acked := map[xctl.SRQN]uint32{}; acked[sinkNum] < 1 || acked[sinkNum+1] < 1; {
			c := await[xctl.Credit](x)
			if acked[c.SRQ] = c.Delivered; c.SRQ == 1 && c.Delivered > 0 {
				t.Errorf("%+v of a queue that has taken nothing", c)
			}
		}
		x.raw.send(x.tell(xctl.Resume{SRQ: 1, MSN: 3}), x.message(1, 0, true, []byte("again")), x.message(sinkNum, 0, true, []byte(" four")))
		e.want(1, Success, OpReceive)
		x.sync()
		if got := string(d.taken()); got != "one two three four" || string(mem.Bytes()[:5]) != "again" {
			t.Errorf("%q and %q", got, mem.Bytes()[:5])
		}
		if got, want := d.heard(), []string{"9 from 0", "10 from 8", "9 from 13"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// An application's queue ends in the middle of a message, and more messages to its number
// are under way. None is refused or lost where Find has another queue with a sink for the
// number; where it has none they are refused as for any queue that there is not.
func TestQueueWithSinkEndsUnderTraffic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		e.qp.SinkReady()
		first, second := x.queues.Find(sinkNum), x.queues.Find(sinkNum+1)
		long := bytes.Repeat([]byte("long"), 5000)
		x.raw.send(x.message(sinkNum+1, 0, false, long[:10000]))
		x.sync()
		x.queues.put(sinkNum+1, first)
		must(t, second.Close())
		x.raw.send(x.message(sinkNum+1, 10000, true, long[10000:]), x.message(sinkNum+1, 0, true, []byte("late")))
		x.sync()
		if got := d.taken(); !bytes.Equal(got, append(bytes.Clone(long), "late"...)) || len(has[xctl.NAK](x)) > 0 {
			t.Errorf("%d octets have come", len(got))
		}
		if news := d.heard(); len(news) != 1 || news[0] != "10 from 0" {
			t.Errorf("%q", news)
		}
		for await[xctl.Credit](x).Delivered < 2 {
		}
		x.queues.remove(sinkNum + 1)
		x.raw.send(x.message(sinkNum+1, 0, true, []byte("refused")), x.message(sinkNum, 0, true, []byte("taken")))
		x.sync()
		if naks := has[xctl.NAK](x); len(naks) != 1 || naks[0] != (xctl.NAK{SRQ: sinkNum + 1, MSN: 3, Code: xctl.NAKUnknown}) {
			t.Errorf("%+v", naks)
		}
		if got := d.taken(); !bytes.HasSuffix(got, []byte("latetaken")) {
			t.Errorf("%d octets have come", len(got))
		}
	})
}

// A queue is sent frames or work requests: its messages have one count.
func TestQueueIsSentFramesOrWorkRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := openSink(t, Config{}, true, false)
		x.sent([]byte{1})
		if _, err := e.qp.PostSend(WorkRequest{Queue: sinkNum, Inline: []byte{1}}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("work request to a queue that is sent frames: %v", err)
		}
		e.send(WorkRequest{Queue: 77, Inline: []byte{2}})
		x.incoming(rdmap.OpSend)
		e.quiet()
		if n, err := e.frames([]transport.Frame{messageTo(77, []byte{3})}); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("frame to a queue that was sent work requests: %d, %v", n, err)
		}
		if n, err := e.direct([]byte{4}); n != 1 || err != nil {
			t.Errorf("after it: %d, %v", n, err)
		}
	})
}

// A connection without a sink has no queues with one.
func TestQueueWithSinkNeedsASink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := sharedPeer(t, true, SharedParams{})
		x.queues.srq(e, 5, SRQConfig{Sink: true})
		x.raw.send(x.message(5, 0, true, []byte("refused")))
		if n := await[xctl.NAK](x); n != (xctl.NAK{SRQ: 5, MSN: 1, Code: xctl.NAKUnknown}) {
			t.Errorf("%+v", n)
		}
		if _, err := e.qp.SendFrames([]transport.Frame{messageTo(5, []byte{1})}, queueOfPort); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("frames on a connection without a sink: %v", err)
		}
	})
}

// What is wrong with an SRQConfig is named by its field.
func TestSRQConfigNamesTheField(t *testing.T) {
	t.Parallel()
	e, other := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{}), newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
	for want, cfg := range map[string]SRQConfig{
		"Number: 0x0 is not in 1..0xfffffe":        {CQ: e.cq},
		"Number: 0xffffff is not in 1..0xfffffe":   {Number: 0xFFFFFF, Sink: true},
		"CQ: missing":                              {Number: 1},
		"CQ: of another device":                    {Number: 1, CQ: other.cq},
		"MaxReceive: -1 is not in 1..1048576":      {Number: 1, CQ: e.cq, MaxReceive: -1},
		"MaxReceive: 1048577 is not in 1..1048576": {Number: 1, CQ: e.cq, MaxReceive: maxQueue + 1},
		"Limit: 129 is not in 0..128":              {Number: 1, CQ: e.cq, Limit: 129},
		"CQ: set beside Sink":                      {Number: 1, Sink: true, CQ: e.cq},
		"MaxReceive: 5 beside Sink":                {Number: 1, Sink: true, MaxReceive: 5},
		"Limit: 1 beside Sink":                     {Number: 1, Sink: true, Limit: 1},
		"OnLimit: set beside Sink":                 {Number: 1, Sink: true, OnLimit: func(*SRQ) {}},
	} {
		srq, err := e.pd.CreateSRQ(cfg)
		if srq != nil || !errors.Is(err, syscall.EINVAL) || !strings.HasPrefix(err.Error(), "iwarp: SRQConfig."+want+": ") {
			t.Errorf("%v, not %q", err, want)
		}
	}
	srq, err := e.pd.CreateSRQ(SRQConfig{Number: 1, Sink: true})
	must(t, err)
	if _, err := srq.PostReceive(ReceiveRequest{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("receive posted to a queue with a sink: %v", err)
	}
	if err := e.pd.Close(); err == nil {
		t.Error("a protection domain was closed that has a queue")
	}
	if err, again := srq.Close(), srq.Close(); err != nil || !errors.Is(again, ErrClosed) {
		t.Errorf("closed: %v, %v", err, again)
	}
}

// A message builds on the Writes that were posted for it. What somebody else posts between
// them and the message goes behind it, or the message would name that as its own; in a
// queue pair that is to end it waits for the message no more.
func TestMessageComesRightBehindItsWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := openSink(t, Config{}, true, false)
		var early []uint32
		x.data = func(s rdmap.Segment) { early = append(early, s.Tagged.STag) }
		for round := range uint32(3) {
			e.quiet()
			mine := WorkRequest{Op: OpWrite, Inline: []byte{1}, RemoteKey: 100}
			must(t, e.qp.PostFirst(mine, mine))
			e.send(WorkRequest{Op: OpWrite, Inline: []byte{1}, RemoteKey: 200})
			e.qp.letGo()
			x.sync()
			for len(early) < 2 {
				early = append(early, x.incoming(rdmap.OpWrite).Tagged.STag)
			}
			if len(early) != 2 || early[0] != 100 || early[1] != 100 {
				t.Fatalf("Writes %d before the message", early)
			}
			early = nil
			if round == 2 {
				break
			}
			e.quiet()
			if n, err := e.frames([]transport.Frame{{Head: []byte("message"), Ops: following, Port: sinkNum}}); n != 7 || err != nil {
				t.Fatal(n, err)
			}
			if s := x.incoming(rdmap.OpSendSolicited); s.Untagged.ULPData != 1+3*round {
				t.Errorf("the message names Write %d", s.Untagged.ULPData)
			}
			if s := x.incoming(rdmap.OpWrite); s.Tagged.STag != 200 {
				t.Errorf("a Write with key %d behind the message", s.Tagged.STag)
			}
		}
		must(t, e.qp.Disconnect())
		if s := x.incoming(rdmap.OpWrite); s.Tagged.STag != 200 {
			t.Errorf("a Write with key %d", s.Tagged.STag)
		}
	})
}

// A message that builds on Writes is posted with them, or all of them have to wait for places.
func TestPostLeavingTakesGroupsWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{MaxSend: 8})
		openExtended(t, e, true, allCaps, SharedParams{})
		write := WorkRequest{Op: OpWrite, Inline: []byte("x"), RemoteKey: 5}
		list := []WorkRequest{{Queue: 5, Inline: []byte("x")}, write, write, {Queue: 5, Inline: []byte("x"), Writes: 2}, write}
		for _, c := range []struct{ leave, want int }{{6, 1}, {4, 1}, {2, 4}} { // there are 8, 7 and 6 places
			if n, err := e.qp.PostLeaving(c.leave, list...); n != c.want || err != ErrQueueFull {
				t.Errorf("%d requests are posted, %v, with %d places left; want %d", n, err, c.leave, c.want)
			}
		}
	})
}

// Work requests that a message follows are posted all or none.
func TestPostFirstTakesAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{MaxSend: 4})
		d := newSinkRecorder(t)
		x := openExtendedCRC(t, e, true, false, allCaps, SharedParams{Sink: d})
		x.sync()
		list := make([]WorkRequest, 5)
		for i := range list {
			list[i] = WorkRequest{Op: OpWrite, Inline: []byte{1}}
		}
		wantErr(t, "five requests in a queue of four", e.qp.PostFirst(list...), ErrQueueFull)
		if err := e.qp.PostFirst(list[:4]...); err != nil {
			t.Error(err)
		}
		for range 4 {
			x.incoming(rdmap.OpWrite)
		}
	})
}

// What is wrong with a work request is named by its field.
func TestWorkRequestNamesTheField(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := openSink(t, Config{}, true, false)
		x.sent([]byte{1})
		sge := make([]SGE, MaxSGE+1)
		for want, w := range map[string]WorkRequest{
			"Op: ":                      {Op: OpReceive},
			"Op: op(99)":                {Op: 99},
			"SGE: 0 pieces":             {Op: OpCompareSwap},
			"Inline: set for fetch-add": {Op: OpFetchAdd, Inline: make([]byte, 8)},
			"Local: set for read":       {Op: OpRead, Local: make([][]byte, 1)},
			"SGE: 5 pieces":             {SGE: sge},
			"SGE: 2 pieces":             {Op: OpRead, SGE: sge[:2]},
			"SGE: set for":              {Op: OpImmediate, SGE: sge[:1]},
			"SGE: 1 pieces":             {Op: OpFetchAdd, SGE: sge[:1]},
			"SGE: 4294967296":           {SGE: []SGE{{Len: 1 << 31}, {Len: 1 << 31}}},
			"RemoteAddr: 0x4":           {Op: OpCompareSwap, SGE: []SGE{{Len: 8}}, RemoteAddr: 4},
			"RemoteAddr: 0x4 of":        {Op: OpFetchAdd, SGE: []SGE{{Len: 8}}, RemoteAddr: 4},
			"SGE: 1 pieces of 4":        {Op: OpFetchAdd, SGE: []SGE{{Len: 4}}},
			"Local: 5 pieces":           {Op: OpWrite, Local: make([][]byte, MaxSGE+1)},
			"Local: set for":            {Local: make([][]byte, 1)},
			"Local: set beside":         {Op: OpWrite, Local: make([][]byte, 1), SGE: sge[:1]},
			"Inline: set for":           {Op: OpRead, Inline: []byte{1}},
			"Inline: set beside":        {Inline: []byte{1}, SGE: sge[:1]},
			"Inline: 129 bytes":         {Inline: make([]byte, 129)},
			"Writes: 1":                 {Writes: 1},
			"RemoteAddr: 0xff":          {Op: OpWrite, Queue: 1, Inline: []byte{1, 2}, RemoteAddr: MaxNamed - 1},
			"Queue: 0xffffff is":        {Queue: 0xFFFFFF},
			"Queue: 0x9 is sent":        {Queue: sinkNum},
		} {
			if n, err := e.qp.PostSend(w); n != 0 || !errors.Is(err, syscall.EINVAL) || !strings.HasPrefix(err.Error(), "iwarp: WorkRequest."+want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
		for want, p := range map[string]ConnParams{
			"ConnParams.MaxULPDU: 5 is":             {MaxULPDU: 5},
			"SharedParams.Reservation: set without": {Shared: &SharedParams{Reservation: NewReservation(10, 1)}},
		} {
			if err := p.validate(); !errors.Is(err, syscall.EINVAL) || !strings.HasPrefix(err.Error(), "iwarp: "+want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
	})
}

// The rest of a message that has begun behind its Writes waits for nothing that was posted
// later, and may itself wait for the peer.
func TestRestOfAMessageWaitsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, true)
		x.raw.send(x.tell(credit(0, 9)))
		x.sync()
		mem := e.reg(64, allRights)
		long := transport.Frame{Head: make([]byte, 4<<20), Ops: following, Port: sinkNum}
		for round := range 2 { // the first one has TCP's window grow, so that one call writes several batches
			must(t, e.qp.PostFirst(WorkRequest{Op: OpWrite, Inline: []byte{1}}))
			for range 40 * round { // more than the peer is asked at a time
				e.send(WorkRequest{Op: OpRead, SGE: []SGE{mem.SGE(0, 8)}})
			}
			sent := make(chan error)
			go func() { sent <- e.sendWhole(long, d) }()
			for last := false; !last; {
				s, ok, err := x.take()
				must(t, err)
				last = ok && s.Op == rdmap.OpSendSolicited && s.Untagged.Last
			}
			must(t, <-sent)
		}
	})
}
