//go:build !live

package iwarp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// sharedPeer is a sharedHost and the raw peer that it is connected to.
func sharedPeer(t testing.TB, initiator bool, own SharedParams) (*end, *extended, *MR) {
	t.Helper()
	e, mem := sharedHost(t)
	return e, openExtended(t, e, initiator, allCaps, own), mem
}

// Row 66: a message to a queue that there is not is refused once, with its last
// segment, and the next one is delivered.
func TestUnknownQueueIsRefusedOnce(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{})
		for _, n := range []xctl.SRQN{1, 0x800000, xctl.MaxSRQN} {
			x.raw.send(x.message(n, 0, false, make([]byte, 100)), x.message(n, 100, false, make([]byte, 100)))
			x.sync()
			if l := has[xctl.NAK](x); len(l) > 0 {
				t.Fatalf("refused before its end: %+v", l)
			}
			x.raw.send(x.message(n, 200, true, nil))
			x.sync()
			if l := has[xctl.NAK](x); len(l) != 1 || l[0].SRQ != n || l[0].MSN != 1 || l[0].Code != xctl.NAKUnknown {
				t.Fatalf("%+v", l)
			}
			s := x.queues.srq(e, uint32(n), SRQConfig{})
			e.give(s, 7, mem.SGE(0, 100))
			x.raw.send(x.message(n, 0, true, []byte("here")))
			if c := e.want(7, Success, OpReceive); c.Len != 4 || c.Queue != uint32(n) {
				t.Fatalf("%+v", c)
			}
			if c := await[xctl.Credit](x); c.SRQ != n || c.Delivered != 2 {
				t.Fatalf("%+v", c)
			}
		}
	})
}

// Row 67: of ten messages to an empty queue the first is refused and the others
// dropped in silence; after a RESUME they come in order.
func TestEmptyQueueRefusesOneMessage(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{})
		s := x.queues.srq(e, 1, SRQConfig{})
		for range 10 {
			x.raw.send(x.message(1, 0, true, []byte("dropped")))
		}
		x.sync()
		l := has[xctl.NAK](x)
		if len(l) != 1 || l[0].Code != xctl.NAKNotReady || l[0].MSN != 1 {
			t.Fatalf("%+v", l)
		}
		for i := range uint64(10) {
			e.give(s, i, mem.SGE(0, 100))
		}
		if c := await[xctl.Credit](x); c.Delivered != 0 || int32(c.Limit-l[0].Info) <= 0 {
			t.Fatalf("%+v tells nobody of memory", c)
		}
		x.raw.send(x.message(1, 0, true, []byte("too early")), x.tell(xctl.Resume{SRQ: 1, MSN: 12}))
		for i := range 10 {
			x.raw.send(x.message(1, 0, true, make([]byte, i)))
		}
		for i := range uint64(10) {
			if c := e.want(i, Success, OpReceive); uint64(c.Len) != i {
				t.Fatalf("%d came as message %d", c.Len, i)
			}
		}
		x.sync()
		if l := has[xctl.NAK](x); len(l) != 0 {
			t.Fatalf("%+v", l)
		}
	})
}

// Row 70: a Write that fails is reported, the message that builds on it refused,
// and the next one delivered.
func TestMessageOnFailedWriteIsRefused(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{})
		s := x.queues.srq(e, 1, SRQConfig{})
		e.give(s, 1, mem.SGE(0, 100))
		// The first one was openExtended's.
		x.raw.send(write(uint32(mem.Key()), mem.Base(), []byte("no right")), x.messageOp(rdmap.OpSend, 2, 1, 0, true, nil), x.message(1, 0, true, []byte("ok")))
		if w := await[xctl.WriteError](x); w.Ordinal != 2 || w.STag != uint32(mem.Key()) || w.TO != mem.Base() || w.Cause != rdmap.CauseDDPInvalidSTag {
			t.Fatalf("%+v", w)
		}
		if n := await[xctl.NAK](x); n.Code != xctl.NAKDependency || n.MSN != 1 {
			t.Fatalf("%+v", n)
		}
		if c := e.want(1, Success, OpReceive); c.Len != 2 {
			t.Fatalf("%+v", c)
		}
	})
}

// Row 71: a read that was answered in part and then refused fails; the next one
// is good. An atomic is refused likewise.
func TestRefusedReadFailsAlone(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{})
		read := WorkRequest{Op: OpRead, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 1}
		for id := range uint64(3) {
			read.ID = id
			e.send(read)
		}
		e.send(WorkRequest{ID: 3, Op: OpFetchAdd, SGE: []SGE{mem.SGE(8, 8)}, RemoteKey: 1},
			WorkRequest{ID: 4, Op: OpRead, Flags: Signaled, SGE: []SGE{mem.SGE(0, 8)}, RemoteKey: 1})
		var reqs []rdmap.Segment
		for range 3 {
			reqs = append(reqs, x.incoming(rdmap.OpReadRequest))
		}
		x.incoming(rdmap.OpAtomicRequest)
		reqs = append(reqs, x.incoming(rdmap.OpReadRequest))
		part := answer(reqs[0], make([]byte, 4))
		part[0] &^= 0x40 // not the last
		x.raw.send(part,
			x.tell(xctl.ReadError{MSN: 1, Cause: rdmap.CauseAccess, Placed: 4}, xctl.ReadError{MSN: 2, Cause: rdmap.CauseBounds}),
			x.tell(xctl.ReadError{MSN: 3, Cause: rdmap.CauseInvalidSTag}, xctl.ReadError{MSN: 4, Cause: rdmap.CauseAccess}),
			answer(reqs[3], []byte("the data")))
		for id, cause := range []rdmap.Cause{rdmap.CauseAccess, rdmap.CauseBounds, rdmap.CauseInvalidSTag, rdmap.CauseAccess} {
			if c := e.want(uint64(id), RemoteAccess, 0); c.Vendor != uint32(cause) {
				t.Fatalf("%+v", c)
			}
		}
		e.want(4, Success, OpRead)
		if string(mem.Bytes()[:8]) != "the data" {
			t.Fatalf("%q", mem.Bytes()[:8])
		}
	})
}

// Row 72, and RFC 5042 section 6.4.4: a peer that makes numbers up loses the
// connection, and costs no memory before.
func TestMadeUpNumbersEndTheConnection(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, _ := sharedPeer(t, initiator, SharedParams{Errors: 100})
		for i := range xctl.SRQN(100) {
			x.raw.send(x.message(1000+i, 0, true, nil))
		}
		x.sync()
		if l := has[xctl.NAK](x); len(l) != 100 || e.qp.stream.shared.in.Len() != 0 {
			t.Fatalf("%d refused, %d entries", len(l), e.qp.stream.shared.in.Len())
		}
		for i := range xctl.SRQN(1000) { // more than fit a second of any machine
			x.raw.send(x.message(5000+i, 0, true, nil))
		}
		x.terminated(rdmap.CauseStreamCatastrophic)
	})
}

// Row 73: without a way to be told to wait a sender beyond its limit is wrong, as
// is a limit that cannot be kept.
func TestSenderWithoutRNRKeepsItsLimit(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, mem := sharedHost(t)
		x := openExtended(t, e, initiator, allCaps&^xctl.CapRNR, SharedParams{Credit: 3})
		s := x.queues.srq(e, 1, SRQConfig{})
		for range 3 {
			e.give(s, 0, mem.SGE(0, 8))
			x.raw.send(x.message(1, 0, true, nil))
			e.want(0, Success, OpReceive)
		}
		x.raw.send(x.message(1, 0, true, nil)) // there is no memory
		x.terminated(rdmap.CauseDDPNoBuffer)
	})
}

// To a plain peer an offer is private data, and nothing else of the extension is
// ever sent: every frame is one of the RFCs'.
func TestOfferToPlainPeerEmitsNothingElse(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, mem := sharedHost(t)
		terms := ConnParams{Guard: -1, Shared: &SharedParams{Queues: &queueMap{}, Send: true}}
		var p *raw
		if initiator {
			p = rawInitiator(t, e, request(true), terms)
		} else {
			p = rawResponder(t, e, reply(true), terms)
		}
		if e.est.Shared {
			t.Fatal("agreed with nobody")
		}
		open := e.reg(64, allRights)
		e.post(50, mem.SGE(0, 64))
		p.send(write(uint32(open.Key()), open.Base(), make([]byte, 8)), p.sendMessage([]byte("hello")),
			p.read(rdmap.ReadRequest{SinkSTag: 1, Size: 8, SourceSTag: uint32(open.Key()), SourceTO: open.Base()}))
		e.want(50, Success, OpReceive)
		p.segment(rdmap.OpReadResponse)
		e.send(WorkRequest{ID: 1, Op: OpWrite, Flags: Signaled, Inline: []byte("x"), RemoteKey: 1}, WorkRequest{ID: 2, Flags: Signaled, Inline: []byte("y")})
		e.want(1, Success, OpWrite)
		e.want(2, Success, OpSend)
		p.segment(rdmap.OpWrite)
		if s := p.segment(rdmap.OpSend); s.Untagged.QN != 0 || s.Untagged.ULPData != 0 {
			t.Fatalf("%+v", s.Untagged)
		}
		must(t, e.qp.Disconnect())
		p.closed()
	})
}

// Messages of a peer that may be sent in pieces, delayed and dropped in between
// are told apart: one that is open while its queue goes away and comes again is
// refused, and so is no other.
func TestQueueMadeAgainInTheMiddle(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, x, mem := sharedPeer(t, initiator, SharedParams{})
		for round := range uint32(5) {
			old := x.queues.srq(e, 1, SRQConfig{})
			e.give(old, 1, mem.SGE(0, 4096))
			x.raw.send(x.message(1, 0, false, make([]byte, 100)))
			x.sync()
			x.queues.end(t, old)
			again := x.queues.srq(e, 1, SRQConfig{})
			e.give(again, 2, mem.SGE(4096, 4096))
			mid := []byte("rest")
			if round%2 == 1 {
				mid = nil // nothing to place: refused all the same
			}
			x.raw.send(x.message(1, 100, true, mid), x.message(1, 0, true, []byte("new")))
			if n := await[xctl.NAK](x); n.Code != xctl.NAKUnknown || n.MSN != 2*round+1 {
				t.Fatalf("round %d: %+v", round, n)
			}
			if c := e.want(2, Success, OpReceive); c.Len != 3 {
				t.Fatalf("%+v", c)
			}
			x.queues.end(t, again)
		}
	})
}

// The end of a connection in the middle of a message gives its memory back to the
// queue, for the message of another one.
func TestEndGivesMemoryBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(x *extended){
		"FIN":        func(x *extended) { _ = x.conn.CloseWrite() },
		"RST":        func(x *extended) { x.abort() },
		"Terminate":  func(x *extended) { x.raw.send(terminating(rdmap.NewTerminate(rdmap.CauseAccess, nil))) },
		"bad FPDU":   func(x *extended) { x.raw.send([]byte{1}) },
		"half a one": func(x *extended) { x.write([]byte{0, 100, 1}); _ = x.conn.CloseWrite() },
		"Fail":       func(x *extended) { x.e.qp.Fail() },
		"Close":      func(x *extended) { _ = x.e.qp.Close() },
	} {
		inBubble(t, name, func(t *testing.T) {
			e, x, mem := sharedPeer(t, true, SharedParams{})
			s := x.queues.srq(e, 1, SRQConfig{MaxReceive: 1})
			e.give(s, 9, mem.SGE(0, 4096))
			x.raw.send(x.message(1, 0, false, make([]byte, 100)))
			x.sync()
			if _, err := s.PostReceive(ReceiveRequest{}); err != ErrQueueFull {
				t.Fatalf("the place of the request that is being filled was given away: %v", err)
			}
			end(x)
			<-e.qp.Done()
			again := e.of(t).with(QPConfig{})
			again.cq = e.cq
			y := openExtended(t, again, true, allCaps, SharedParams{})
			y.queues.put(1, s)
			y.raw.send(y.message(1, 0, true, []byte("other")))
			if c := e.want(9, Success, OpReceive); c.Len != 5 || s.rq.posted() != 0 || s.rq.lent != 0 {
				t.Fatalf("%+v, %d posted", c, s.rq.posted())
			}
		})
	}
}

// A second beginning of a message whose queue is gone does not lose the first.
func TestMessageBeginsTwiceWhileItsQueueGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, mem := sharedPeer(t, true, SharedParams{})
		s := x.queues.srq(e, 1, SRQConfig{})
		e.give(s, 1, mem.SGE(0, 64))
		x.raw.send(x.message(1, 0, false, nil))
		x.sync()
		x.queues.remove(1)
		x.raw.send(x.message(1, 0, true, []byte("all of it")))
		if c := e.want(1, Success, OpReceive); c.Len != 9 {
			t.Fatalf("%+v", c)
		}
	})
}

// The memory of a region is as it was when messages for it were refused: those
// that are too long by any arithmetic.
func TestLongMessagesAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, mem := sharedPeer(t, true, SharedParams{})
		s := x.queues.srq(e, 1, SRQConfig{})
		e.give(s, 1, mem.SGE(0, 10), mem.SGE(100, 20))
		for _, sizes := range [][]int{{31}, {30, 1}, {10, 20, 1}, {60_000}, {1, 60_000}} {
			mo := 0
			for i, n := range sizes {
				x.raw.send(x.message(1, uint32(mo), i == len(sizes)-1, make([]byte, n)))
				mo += n
			}
			if n := await[xctl.NAK](x); n.Code != xctl.NAKTooLong || n.Info != 30 {
				t.Fatalf("%v: %+v", sizes, n)
			}
		}
		payload := binary.BigEndian.AppendUint64(nil, 0x0102030405060708)
		x.raw.send(x.message(1, 0, true, payload))
		e.want(1, Success, OpReceive)
		if !bytes.Equal(mem.Bytes()[:8], payload) || mem.Bytes()[10] != 0 {
			t.Fatalf("% x", mem.Bytes()[:16])
		}
	})
}
