package iwarp

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// extended is a raw peer that has agreed to shared receive queues, in both
// directions. Its own capabilities are those of caps.
type extended struct {
	*raw
	e       *end
	queues  *queueMap
	control uint32                // MSN of its last control message
	next    map[xctl.SRQN]uint32  // MSN of its last message to each queue
	records []any                 // records that came and were not taken
	heard   uint32                // MSN of our side's last control message
	data    func(s rdmap.Segment) // other segments that come while a record is awaited
}

const allCaps = xctl.CapTarget | xctl.CapInitiator | xctl.CapCredit | xctl.CapRNR | xctl.CapSoftRead | xctl.CapSoftWrite | xctl.CapPing | xctl.CapImmediate | xctl.CapAtomics | xctl.CapRefused

// open extends a stream. The peer has spoken when it returns, so both may send.
func openExtended(t testing.TB, e *end, initiator bool, caps xctl.Caps, own SharedParams) *extended {
	t.Helper()
	return openExtendedCRC(t, e, initiator, true, caps, own)
}

func openExtendedCRC(t testing.TB, e *end, initiator, crc bool, caps xctl.Caps, own SharedParams) *extended {
	t.Helper()
	x := &extended{e: e, queues: &queueMap{}, next: make(map[xctl.SRQN]uint32), data: func(rdmap.Segment) {}}
	own.Queues, own.Send, own.Require = x.queues, true, true
	for n := uint32(sinkNum); own.Sink != nil && n <= sinkNum+sinkOthers; n++ {
		x.queues.srq(e, n, SRQConfig{Sink: true})
	}
	block := xctl.Block{Caps: caps, MaxSRQ: 4096, MaxULPDU: 65535, Credit: 4}
	terms := ConnParams{NoCRC: !crc, Guard: -1, Shared: &own}
	if initiator {
		f := request(crc)
		f.Private = block.AppendTo(f.Private)
		x.raw = rawInitiator(t, e, f, terms)
	} else {
		f := reply(crc)
		f.Private = block.AppendTo(f.Private)
		x.raw = rawResponder(t, e, f, terms)
	}
	if !e.est.Shared {
		t.Fatal("not agreed")
	}
	if own.Sink != nil { // so that the peer can grant messages before there are any
		e.qp.mu.Lock()
		e.qp.stream.shared.useQueueLocked(sinkNum)
		e.qp.mu.Unlock()
	}
	x.send(emptyWrite())
	return x
}

// tell makes a control message of records.
func (x *extended) tell(records ...xctl.Record) []byte {
	var b []byte
	for _, r := range records {
		b = xctl.AppendTo(b, r)
	}
	return x.tellBytes(b)
}

func (x *extended) tellBytes(b []byte) []byte {
	x.control++
	return append(xctl.Header(x.control).AppendTo(nil), b...)
}

// message is a segment of the next message to a queue; the last one ends it.
func (x *extended) message(n xctl.SRQN, mo uint32, last bool, payload []byte) []byte {
	return x.messageOp(rdmap.OpSend, 0, n, mo, last, payload)
}

func (x *extended) messageOp(op rdmap.Op, ulp uint32, n xctl.SRQN, mo uint32, last bool, payload []byte) []byte {
	h := ddp.Untagged{Last: last, ULP: op.Control(), ULPData: ulp, QN: n.QN(), MSN: x.next[n] + 1, MO: mo}
	if last {
		x.next[n]++
	}
	return append(h.AppendTo(nil), payload...)
}

// take reads one segment; records of control messages are kept. It returns the
// segment if it was something else.
func (x *extended) take() (s rdmap.Segment, ok bool, err error) {
	u, err := x.raw.next()
	if err != nil {
		return s, false, err
	}
	if err := s.Parse(u, rdmap.OpsRFC5040|rdmap.OpsRFC7306|1<<rdmap.OpPrivate); err != nil {
		x.t.Fatalf("%v: % x", err, u)
	}
	if s.Op != rdmap.OpPrivate {
		return s, true, nil
	}
	if x.heard++; s.Untagged != xctl.Header(x.heard) {
		x.t.Fatalf("control message %d: %+v", x.heard, s.Untagged)
	}
	it := xctl.Iterate(s.Payload)
	for it.Next() {
		var r any
		switch it.Type() {
		case xctl.TypeCredit:
			r = it.Credit()
		case xctl.TypeNAK:
			r = it.NAK()
		case xctl.TypeResume:
			r = it.Resume()
		case xctl.TypeReadError:
			r = it.ReadError()
		case xctl.TypeWriteError:
			r = it.WriteError()
		case xctl.TypeWriteAck:
			r = it.WriteAck()
		case xctl.TypePing:
			r = it.Ping()
		case xctl.TypePong:
			r = it.Pong()
		case xctl.TypeSRQ:
			r = it.SRQ()
		case xctl.TypeHome:
			r = it.Home()
		case xctl.TypeRefused:
			r = it.Refused()
		case xctl.TypeGrant:
			r = it.Grant()
		case xctl.TypeReturn:
			r = it.Return()
		case xctl.TypeFull:
			r = it.Full()
		}
		x.records = append(x.records, r)
	}
	must(x.t, it.Err())
	return s, false, nil
}

// await is the next record of a type; others are dropped.
func await[T any](x *extended) (r T) {
	x.t.Helper()
	for {
		for len(x.records) > 0 {
			r, ok := x.records[0].(T)
			x.records = x.records[1:]
			if ok {
				return r
			}
		}
		s, other, err := x.take()
		if err != nil {
			x.t.Fatalf("no %T but %v (queue pair: %v)", r, err, x.e.qp.Err())
		}
		if other {
			x.data(s)
		}
	}
}

// incoming is the next segment that is no control message.
func (x *extended) incoming(op rdmap.Op) rdmap.Segment {
	x.t.Helper()
	for {
		s, ok, err := x.take()
		if err != nil {
			x.t.Fatalf("no %v but %v (queue pair: %v)", op, err, x.e.qp.Err())
		}
		if !ok {
			continue
		}
		if s.Op != op {
			x.t.Fatalf("%v instead of %v", s.Op, op)
		}
		return s
	}
}

// sync waits until our side has seen everything. What it has said is in records.
func (x *extended) sync() {
	x.t.Helper()
	kept := x.records
	x.records = nil
	nonce := uint64(x.control) + 1<<40
	x.send(x.tell(xctl.Ping{Nonce: nonce}))
	for {
		for i, r := range x.records {
			if p, ok := r.(xctl.Pong); ok && p.Nonce == nonce {
				x.records = append(kept, append(x.records[:i:i], x.records[i+1:]...)...)
				return
			}
		}
		s, other, err := x.take()
		if err != nil {
			x.t.Fatalf("no PONG but %v (queue pair: %v)", err, x.e.qp.Err())
		}
		if other {
			x.data(s)
		}
	}
}

// has takes all records of a type that have come.
func has[T any](x *extended) (list []T) {
	rest := x.records[:0]
	for _, r := range x.records {
		if v, ok := r.(T); ok {
			list = append(list, v)
		} else {
			rest = append(rest, r)
		}
	}
	x.records = rest
	return list
}

// terminated reads up to the Terminate of this cause.
func (x *extended) terminated(cause rdmap.Cause) {
	x.t.Helper()
	for {
		s, other, err := x.take()
		if err != nil {
			x.t.Fatalf("no Terminate but %v (queue pair: %v)", err, x.e.qp.Err())
		}
		if !other || s.Op != rdmap.OpTerminate {
			continue
		}
		var d rdmap.Terminate
		if err := d.Decode(s.Payload, rdmap.Hints{}); err != nil || d.Cause != cause {
			x.t.Fatalf("Terminate of %v, %v, want %v", d.Cause, err, cause)
		}
		x.gone()
		x.e.ended()
		return
	}
}

// sharedHost is an end of its own with a region for messages.
func sharedHost(t testing.TB) (*end, *MR) {
	t.Helper()
	e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
	return e, e.reg(1<<16, mr.LocalWrite)
}

// bothRoles runs a test with a raw peer that connects, and one that is connected
// to.
func bothRoles(t *testing.T, f func(t *testing.T, initiator bool)) {
	for name, initiator := range map[string]bool{"peer connects": true, "we connect": false} {
		inBubble(t, name, func(t *testing.T) { f(t, initiator) })
	}
}

func (q *queueMap) put(n uint32, s *SRQ) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.m == nil {
		q.m = make(map[uint32]*SRQ)
	}
	q.m[n] = s
}

// discard reads and drops all that comes, until the end.
func (x *extended) discard() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		_ = x.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, _ = io.Copy(io.Discard, x.conn)
		close(done)
	}()
	return done
}

// record makes the bytes of a record of any type and length.
func record(typ byte, length uint16, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{typ, 0}, length), body...)
}
