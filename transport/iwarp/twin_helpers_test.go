package iwarp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Sizes of what a random stream goes to.
const (
	twinMemory   = 512 << 10
	twinMessages = 12
	twinMessage  = 100_000
)

// twin does with a stream what the engine's receiver does, by the plain parsers,
// and in plain memory.
type twin struct {
	parser   mpa.Parser
	memory   []byte // what Writes go to, from address base
	base     uint64
	messages []byte // twinMessage octets for each
	done     []Completion
	open     int // octets of the message that has begun
}

func (w *twin) ulpdu(u []byte) error {
	var s rdmap.Segment
	if err := s.Parse(u, rdmap.OpsRFC5040|rdmap.OpsRFC7306); err != nil {
		return err
	}
	switch {
	case s.Op == rdmap.OpWrite:
		if len(s.Payload) > 0 {
			copy(w.memory[s.Tagged.TO-w.base:], s.Payload)
		}
	case s.Op.Immediate():
		var v rdmap.Immediate
		if err := v.Decode(s.Payload); err != nil {
			return err
		}
		w.done = append(w.done, Completion{Op: OpImmediate, Len: 8, Immediate: uint64(v), Solicited: s.Op.Solicited()})
	case s.Op.Send():
		copy(w.messages[len(w.done)*twinMessage+int(s.Untagged.MO):], s.Payload)
		w.open += len(s.Payload)
		if s.Untagged.Last {
			w.done = append(w.done, Completion{Op: OpReceive, Len: uint32(w.open), Solicited: s.Op.Solicited()})
			w.open = 0
		}
	}
	return nil
}

// randomStream makes ULPDUs of Writes, messages and Read Requests, the segments
// of Writes between those of messages as well.
func randomStream(r *rand.Rand, p *raw, key mr.Key, base uint64) (list [][]byte) {
	size := func(most int) int {
		switch r.IntN(4) {
		case 0:
			return r.IntN(min(most, 40) + 1)
		case 1:
			return r.IntN(min(most, 5000) + 1)
		}
		return r.IntN(most + 1)
	}
	payload := func(n int) []byte {
		b := make([]byte, n)
		fill(b, r.Uint64())
		return b
	}
	writes := func() {
		for left := r.IntN(4); left > 0; left-- {
			at := uint64(r.IntN(twinMemory))
			for {
				n := size(min(65535-ddp.TaggedLen, twinMemory-int(at)))
				last := n == 0 || r.IntN(2) == 0
				list = append(list, tagged(rdmap.OpWrite, uint32(key), base+at, last, payload(n)))
				if at += uint64(n); last {
					break
				}
			}
		}
	}
	for range twinMessages {
		writes()
		switch r.IntN(5) {
		case 0:
			op := []rdmap.Op{rdmap.OpImmediate, rdmap.OpImmediateSolicited}[r.IntN(2)]
			list = append(list, untagged(op, 0, p.nextMSN(0), 0, true, payload(8)))
			continue
		case 1:
			list = append(list, p.read(rdmap.ReadRequest{Size: uint32(size(5000)), SourceSTag: uint32(key), SourceTO: base}))
		}
		op, msn := []rdmap.Op{rdmap.OpSend, rdmap.OpSendSolicited}[r.IntN(2)], p.nextMSN(0)
		for mo := 0; ; {
			n := size(min(65535-ddp.UntaggedLen, twinMessage-mo))
			last := r.IntN(3) == 0 || mo+n == twinMessage
			list = append(list, untagged(op, 0, msn, uint32(mo), last, payload(n)))
			if mo += n; last {
				break
			}
			// Never between Reads: none may come inside a message.
			writesBetween := len(list)
			writes()
			if r.IntN(3) > 0 {
				list = list[:writesBetween]
			}
		}
	}
	return list
}

// twinHost is what streams are compared on: its device reads in small pieces.
func twinHost(t testing.TB, readBuffer int) *end {
	return newEnd(t, openDevice(t, Config{EventLoops: 1, ReadBuffer: readBuffer}), QPConfig{})
}

// compareTwins sends one random stream to the engine and to its twin.
func compareTwins(t *testing.T, host *end, seed uint64, s rawStream) {
	r := rand.New(rand.NewPCG(seed, 0))
	e := host.with(QPConfig{MaxReceive: twinMessages})
	const base = 1 << 20
	w := &twin{memory: make([]byte, twinMemory), base: base, messages: make([]byte, twinMessages*twinMessage)}
	open, err := e.pd.RegMR(make([]byte, twinMemory), mr.LocalWrite|mr.RemoteWrite, base)
	must(t, err)
	source, err := e.pd.RegMR(make([]byte, 8192), mr.RemoteRead, base)
	must(t, err)
	recv, err := e.pd.RegMR(make([]byte, len(w.messages)), mr.LocalWrite, 0)
	must(t, err)
	for i := range twinMessages {
		cut := r.IntN(twinMessage)
		e.post(uint64(i), recv.SGE(i*twinMessage, cut), recv.SGE(i*twinMessage+cut, twinMessage-cut))
	}
	p := openStream(t, e, s)
	w.parser.CRC, w.parser.Markers = p.crc, p.markers != nil
	stream := []byte(nil)
	for _, u := range randomStream(r, p, open.Key(), base) {
		if u[1]&0xf == byte(rdmap.OpReadRequest) { // they read from elsewhere: nothing orders them with the Writes
			source := rdmap.ReadRequest{Size: 100, SourceSTag: uint32(source.Key()), SourceTO: base}
			u = append(u[:ddp.UntaggedLen], source.AppendTo(nil)...)
		}
		stream = append(stream, p.frame(u)...)
	}
	if err := w.parser.Feed(stream, w.ulpdu); err != nil {
		t.Fatalf("the twin refuses: %v", err)
	}
	p.writeSplit(r, stream)
	_ = p.conn.CloseWrite()
	if err := e.ended(); err != ErrPeerClosed {
		t.Fatalf("seed %d: ended by %v", seed, err)
	}
	got := e.rest()
	if len(got) != twinMessages || len(w.done) != twinMessages {
		t.Fatalf("seed %d: %d and %d messages", seed, len(got), len(w.done))
	}
	for i := range got {
		got[i].QP, w.done[i].ID = nil, uint64(i)
		if got[i] != w.done[i] {
			t.Fatalf("seed %d: message %d is %+v, its twin %+v", seed, i, got[i], w.done[i])
		}
	}
	if !bytes.Equal(open.Bytes(), w.memory) {
		t.Fatalf("seed %d: what was written differs from its twin", seed)
	}
	if !bytes.Equal(recv.Bytes(), w.messages) {
		t.Fatalf("seed %d: messages differ from their twins", seed)
	}
	must(t, e.qp.Close())
	_ = p.conn.Close()
	for _, m := range []*MR{open, source, recv} {
		must(t, m.Dereg(within(t)))
	}
}

// writeSplit writes b in pieces of random lengths.
func (p *raw) writeSplit(r *rand.Rand, b []byte) {
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		switch {
		case i > 400: // enough
		case r.IntN(3) == 0:
			n = r.IntN(min(n, 24)) + 1
		default:
			n = r.IntN(min(n, 8000)) + 1
		}
		p.write(b[:n])
		b = b[n:]
	}
}

// terminating makes the ULPDU of a Terminate.
func terminating(t rdmap.Terminate) []byte {
	return t.AppendTo(rdmap.TerminateHeader().AppendTo(nil))
}
