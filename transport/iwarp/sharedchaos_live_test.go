//go:build live

package iwarp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// FuzzSharedStream: whatever a peer with shared queues sends, it ends with its
// connection, each request of ours completes once, no receive request is lost,
// and memory that it may not write is as it was.
func FuzzSharedStream(f *testing.F) {
	const base = 0x10000
	for _, seed := range []func(x *extended) []byte{
		func(x *extended) []byte {
			return inFuzz(x.message(1, 0, true, []byte("hello")), x.message(1, 0, false, []byte("ab")), x.message(1, 2, true, []byte("c")))
		},
		func(x *extended) []byte {
			return inFuzz(x.tell(xctl.NAK{SRQ: 5, MSN: 1, Code: xctl.NAKNotReady}), x.tell(xctl.Credit{SRQ: 5, Limit: 9}))
		},
		func(x *extended) []byte {
			return inFuzz(x.tell(xctl.ReadError{MSN: 1, Cause: rdmap.CauseAccess}, xctl.WriteAck{Ordinal: 1}, xctl.Ping{Nonce: 1}))
		},
		func(x *extended) []byte {
			return inFuzz(x.message(2, 0, true, nil), x.message(2, 0, true, nil), x.tell(xctl.Resume{SRQ: 2, MSN: 3}), x.message(7, 0, true, nil))
		},
		func(x *extended) []byte {
			return inFuzz(write(1, base, []byte("ok")), write(9, base, []byte("no")), x.messageOp(rdmap.OpSend, 2, 1, 0, true, nil),
				x.messageOp(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 8)))
		},
		func(x *extended) []byte {
			return inFuzz(x.messageOp(rdmap.OpSendInvalidate, 1, 1, 0, true, nil), x.tellBytes(record(99, 8, 1, 2, 3, 4)))
		},
	} {
		data := seed(&extended{next: make(map[xctl.SRQN]uint32)})
		f.Add(true, uint64(1), data)
		f.Add(false, uint64(2), data)
	}
	host := newEnd(f, openDevice(f, Config{EventLoops: 1, ReadBuffer: 4 << 10}), QPConfig{})
	open, fixed := host.reg(4096, allRights), host.reg(4096, mr.RemoteRead)
	f.Fuzz(func(t *testing.T, crc bool, seed uint64, data []byte) {
		if len(data) > 1<<16 {
			t.Skip("longer than one stream is tried with")
		}
		e := host.of(t).with(QPConfig{})
		defer e.qp.Close()
		p := openExtendedCRC(t, e, true, crc, allCaps, SharedParams{})
		s := p.queues.srq(e, 1, SRQConfig{MaxReceive: 4})
		dry := p.queues.srq(e, 2, SRQConfig{})
		for i := range uint64(4) {
			e.give(s, 100+i, open.SGE(0, 64))
		}
		read := p.discard()
		for i := range uint64(3) {
			e.send(WorkRequest{ID: i, Queue: 5, Flags: Signaled, Inline: []byte("x")})
		}
		e.send(WorkRequest{ID: 3, Op: OpRead, Flags: Signaled, SGE: []SGE{open.SGE(0, 8)}, RemoteKey: 1},
			WorkRequest{ID: 4, Op: OpWrite, Flags: Signaled, Inline: []byte("y"), RemoteKey: 1})
		p.writeSplit(rand.New(rand.NewPCG(seed, 0)), framed(p.raw, data, open.Key()))
		_ = p.conn.CloseWrite()
		if e.ended() == nil {
			t.Error("no reason")
		}
		<-read
		receives, done := s.rq.posted(), make(map[uint64]int)
		for _, c := range e.rest() {
			if done[c.ID]++; c.ID >= 100 {
				receives++
			}
		}
		for id := range uint64(5) {
			if done[id] != 1 {
				t.Errorf("request %d completed %d times", id, done[id])
			}
		}
		if receives != 4 || s.rq.lent != 0 {
			t.Errorf("%d of 4 receive requests left or complete, %d lent", receives, s.rq.lent)
		}
		for _, q := range []*SRQ{s, dry} {
			if q.mu.Lock(); len(q.starved) != 0 {
				t.Error("a queue remembers the connection")
			}
			q.mu.Unlock()
			_ = q.Close()
		}
		if !bytes.Equal(fixed.Bytes(), make([]byte, 4096)) {
			t.Fatal("PROMISE: memory that may not be written has changed")
		}
	})
}
