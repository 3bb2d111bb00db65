//go:build !live

package iwarp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A Terminate is decoded in both layouts; the work request that it is about gets
// the status that verbs would give, all others are flushed.
func TestTerminateIsTranslated(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		body   func(read rdmap.Segment) []byte
		cause  rdmap.Cause
		status Status // status of the first read
		siw    bool
	}{
		{"60 bad key", aboutRead(rdmap.CauseInvalidSTag), rdmap.CauseInvalidSTag, RemoteAccess, false},
		{"60 bounds", aboutRead(rdmap.CauseBounds), rdmap.CauseBounds, RemoteAccess, false},
		{"60 rights", aboutRead(rdmap.CauseAccess), rdmap.CauseAccess, RemoteAccess, false},
		{"60 domain", aboutRead(rdmap.CauseNotAssociated), rdmap.CauseNotAssociated, RemoteAccess, false},
		{"60 too many reads", aboutRead(rdmap.CauseStreamCatastrophic), rdmap.CauseStreamCatastrophic, RemoteInvalid, false},
		{"60 atomics not supported", aboutRead(rdmap.CauseOpcode), rdmap.CauseOpcode, RemoteInvalid, false},
		{"60 MSN of the Read Request", aboutRead(rdmap.CauseDDPMSNRange), rdmap.CauseDDPMSNRange, RemoteInvalid, false},
		{"60 CRC", words(0x20, 0x02, 0, 0), rdmap.CauseMPACRC, Flushed, false},
		{"60 local catastrophe", words(0, 0, 0, 0), rdmap.CauseCatastrophic, Flushed, false},
		{"60 no buffer", aboutSend(rdmap.CauseDDPNoBuffer), rdmap.CauseDDPNoBuffer, Flushed, false},
		{"60 siw, CRC", words(0x02, 0x02, 0, 0), rdmap.CauseMPACRC, Flushed, true},
		{"60 siw, bad key", words(0x10, 0x00, 0x04, 0), rdmap.CauseInvalidSTag, RemoteAccess, true},
		{"60 siw, no buffer", words(0x21, 0x02, 0x01, 0), rdmap.CauseDDPNoBuffer, Flushed, true},
		{"three octets", words(0x20, 0x02, 0), rdmap.CauseCatastrophic, Flushed, false},
		{"nothing", words(), rdmap.CauseCatastrophic, Flushed, false},
		{"a header that is not there", words(0x12, 0x01, 0xc0, 0, 0, 8), rdmap.CauseDDPInvalidQN, Flushed, false},
		{"an unknown cause", words(0x7e, 0xee, 0, 0), 0x7eee, Flushed, false},
	}
	for _, test := range tests {
		for _, s := range streams {
			inBubble(t, s.name+"/"+test.name, func(t *testing.T) {
				v, p := streamVictim(t, s)
				p.send(emptyWrite())
				v.post(100, v.recv.SGE(0, 64))
				v.send(WorkRequest{ID: 1, Op: OpRead, SGE: []SGE{v.sink.SGE(0, 8)}, RemoteKey: 1, RemoteAddr: 2},
					WorkRequest{ID: 2, Op: OpRead, SGE: []SGE{v.sink.SGE(8, 8)}, RemoteKey: 1, RemoteAddr: 2})
				read := p.segment(rdmap.OpReadRequest)
				p.segment(rdmap.OpReadRequest)
				p.send(append(rdmap.TerminateHeader().AppendTo(nil), test.body(read)...))
				// 62: what follows is dropped.
				p.send(write(uint32(v.open.Key()), v.open.Base(), []byte{1}), p.sendMessage([]byte("late")))
				p.closed()
				err := v.ended()
				var te *TerminateError
				if !errors.As(err, &te) || !te.Remote || te.Cause != test.cause || te.SIW != test.siw {
					t.Errorf("the queue pair says %v (%+v)", err, te)
				}
				var got []string
				for _, c := range v.rest() {
					got = append(got, fmt.Sprint(c.ID, c.Status))
				}
				want := fmt.Sprint([]string{fmt.Sprint(1, test.status), fmt.Sprint(2, Flushed), fmt.Sprint(100, Flushed)})
				if fmt.Sprint(got) != want {
					t.Errorf("completed: %v, want %v", got, want)
				}
				if v.open.Bytes()[0] != untouched || v.recv.Bytes()[0] != untouched {
					t.Error("what came after the Terminate was placed")
				}
				if st := v.dev.Stats(); st.TerminatesReceived != 1 || st.TerminatesSent != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// A Terminate is about the Read or atomic that it names, not about one before it, which
// may have been executed: an atomic that was must not be called refused. Linux's siw
// names another number: one request that is outstanding is meant all the same, and so is
// the oldest Read.
func TestTerminateNamesARequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reads, atomics int
		named          int // beyond the number of the last request
		refused        int // which of them fails by it; -1: all are flushed
	}{
		{0, 2, -1, 0}, {0, 2, 0, 1}, {0, 2, 1, -1},
		{1, 0, 1000, 0}, {2, 0, 1000, 0}, {0, 1, 1000, 0}, {0, 2, 1000, -1},
	} {
		for _, s := range streams {
			inBubble(t, fmt.Sprint(s.name, c.reads, c.atomics, c.named), func(t *testing.T) {
				v, p := streamVictim(t, s)
				p.send(emptyWrite())
				var r rdmap.Segment
				for i := range c.reads {
					v.send(WorkRequest{ID: uint64(i), Op: OpRead, SGE: []SGE{v.sink.SGE(0, 8)}, RemoteKey: 1})
					r = p.segment(rdmap.OpReadRequest)
				}
				for i := range c.atomics {
					v.send(WorkRequest{ID: uint64(i), Op: OpFetchAdd, SGE: []SGE{v.sink.SGE(0, 8)}, RemoteKey: 1, Add: 1})
					r = p.segment(rdmap.OpAtomicRequest)
				}
				r.Untagged.MSN += uint32(c.named)
				p.send(append(rdmap.TerminateHeader().AppendTo(nil), aboutRead(rdmap.CauseAccess)(r)...))
				p.closed()
				_ = v.ended()
				done := v.rest()
				same(t, "requests that completed", len(done), c.reads+c.atomics)
				for i, d := range done {
					want := Flushed
					if i == c.refused {
						want = RemoteAccess
					}
					if d.ID != uint64(i) || d.Status != want {
						t.Errorf("completion %d: request %d, %v, want %v", i, d.ID, d.Status, want)
					}
				}
			})
		}
	}
}

func words(b ...byte) func(rdmap.Segment) []byte {
	return func(rdmap.Segment) []byte { return b }
}

func aboutRead(c rdmap.Cause) func(rdmap.Segment) []byte {
	return func(s rdmap.Segment) []byte {
		t := rdmap.NewTerminate(c, append(s.Untagged.AppendTo(nil), s.Payload...))
		return t.AppendTo(nil)
	}
}

func aboutSend(c rdmap.Cause) func(rdmap.Segment) []byte {
	return func(rdmap.Segment) []byte {
		h := ddp.Untagged{Last: true, ULP: rdmap.OpSend.Control(), MSN: 1}
		t := rdmap.NewTerminate(c, h.AppendTo(nil))
		return t.AppendTo(nil)
	}
}

// A Terminate that is none ends the connection, and is not answered by one.
func TestBadTerminateIsNotAnswered(t *testing.T) {
	t.Parallel()
	body := []byte{0x20, 0x02, 0, 0}
	for name, u := range map[string][]byte{
		"61 on QN 0":       untagged(rdmap.OpTerminate, 0, 1, 0, true, body),
		"61 on QN 1":       untagged(rdmap.OpTerminate, 1, 1, 0, true, body),
		"61 MSN 2":         untagged(rdmap.OpTerminate, 2, 2, 0, true, body),
		"61 MSN 0":         untagged(rdmap.OpTerminate, 2, 0, 0, true, body),
		"MO 4":             untagged(rdmap.OpTerminate, 2, 1, 4, true, body),
		"tagged":           tagged(rdmap.OpTerminate, 2, 1, true, body),
		"without the last": untagged(rdmap.OpTerminate, 2, 1, 0, false, body),
		"of 8 KiB":         untagged(rdmap.OpTerminate, 2, 1, 0, true, make([]byte, 8192)),
	} {
		for _, s := range streams {
			inBubble(t, s.name+"/"+name, func(t *testing.T) {
				v := newVictim(t, Config{EventLoops: 1})
				v.post(100, v.recv.SGE(0, 64))
				p := openStream(t, v.end, s)
				p.send(u)
				p.closed()
				if v.ended() == nil {
					t.Error("no reason")
				}
				if c := v.rest(); len(c) != 1 || c[0].Status != Flushed {
					t.Errorf("completed: %+v", c)
				}
			})
		}
	}
}

// A Terminate may come at any point of what the other side does: in the middle
// of its Send, of its response, with reads outstanding, before its first
// message.
func TestTerminateAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		inBubble(t, fmt.Sprintf("crc %v", crc), func(t *testing.T) {
			d := openDevice(t, Config{EventLoops: 2, SendBuffer: 64 << 10})
			for i := range 60 {
				e := newEnd(t, d, QPConfig{SignalAll: true})
				m := e.reg(1<<20, allRights)
				p := openRaw(t, e, i%2 == 0, crc)
				if i%5 > 0 {
					p.send(emptyWrite())
				}
				n := i % 20
				for id := range n {
					w := WorkRequest{ID: uint64(id), SGE: []SGE{m.SGE(0, 1<<20)}, RemoteKey: 1}
					w.Op = []Op{OpSend, OpRead, OpWrite}[id%3]
					e.send(w)
				}
				if i%3 > 0 {
					p.send(p.read(rdmap.ReadRequest{Size: 1 << 20, SourceSTag: uint32(m.Key()), SourceTO: m.Base()}))
				}
				for range i % 4 {
					if n > 2 && i%5 > 0 {
						if _, err := p.next(); err != nil {
							t.Fatal(err)
						}
					}
				}
				p.send(terminating(rdmap.NewTerminate(rdmap.CauseCatastrophic, nil)))
				if err := e.ended(); !errors.Is(err, rdmap.CauseCatastrophic) {
					t.Fatalf("run %d: %v", i, err)
				}
				for id, c := range e.rest() {
					if c.ID != uint64(id) || c.Status != Success && c.Status != Flushed {
						t.Fatalf("run %d: completion %d is %+v", i, id, c)
					}
					n--
				}
				if n != 0 {
					t.Fatalf("run %d: %d requests did not complete", i, n)
				}
				p.gone()
				_ = p.conn.Close()
				_ = e.qp.Close()
			}
		})
	}
}
