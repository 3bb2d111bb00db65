//go:build !live

package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// badSegment is a mistake of a peer on an open stream. Numbers in the names are
// those of the negative list in docs/REQUIREMENTS.md.
type badSegment struct {
	name string
	// receives posts that many receive requests of 4 KiB before.
	receives int
	// reads posts reads of that many bytes, and their requests have come.
	reads []int
	// send does the wrong; p has answered nothing yet, reqs are the Read
	// Requests that came.
	send func(v *victim, p *raw, reqs []rdmap.Segment)
	// cause is what our Terminate says.
	cause rdmap.Cause
	// Which headers it repeats: of the segment that was wrong, and the Read
	// Request's.
	ddp, read bool
	// Statuses of the receive requests and of the reads, in order.
	recv, sent []Status
	// segmentLen that the Terminate tells, 0: not looked at
	segmentLen int
	// noExtensions is Config.NoExtensions.
	noExtensions bool
	// placed: bytes may have been placed before the error.
	placed bool
	// onlyCRC: the case is one of the CRC.
	onlyCRC bool
}

// streamVictim is a victim with a stream to a raw peer.
func streamVictim(t testing.TB, s rawStream) (*victim, *raw) {
	t.Helper()
	v := newVictim(t, Config{EventLoops: 1})
	return v, openStream(t, v.end, s)
}

// Each bad segment ends the connection by the Terminate that the RFCs ask for,
// with the headers they ask for, and changes no byte of memory.
func TestBadSegmentIsTerminated(t *testing.T) {
	t.Parallel()
	all := slices.Concat(opcodes(), shortULPDUs(), badQueues(), badUntagged, badTagged, badMessages)
	for _, s := range streams {
		for _, b := range all {
			if b.onlyCRC && !s.crc {
				continue
			}
			inBubble(t, s.name+"/"+b.name, func(t *testing.T) {
				v := newVictim(t, Config{NoExtensions: b.noExtensions, EventLoops: 1})
				for i := range b.receives {
					v.post(uint64(100+i), v.recv.SGE(0, 4096))
				}
				b.run(t, v, openStream(t, v.end, s))
			})
		}
	}
}

func (b *badSegment) run(t *testing.T, v *victim, p *raw) {
	var reqs []rdmap.Segment
	if len(b.reads) > 0 {
		p.send(emptyWrite()) // a responder may send from now on
		for i, n := range b.reads {
			v.send(WorkRequest{ID: uint64(i), Op: OpRead, SGE: []SGE{v.sink.SGE(i*1024, n)}, RemoteKey: 0x1234, RemoteAddr: 0x5678})
			reqs = append(reqs, p.segment(rdmap.OpReadRequest))
		}
	}
	b.send(v, p, reqs)
	term := p.terminate(b.cause)
	if term.HasDDP != b.ddp || term.HasRead != b.read || term.HasLen != b.ddp {
		t.Errorf("Terminate has length %v, DDP header %v, Read header %v", term.HasLen, term.HasDDP, term.HasRead)
	}
	if b.segmentLen > 0 && int(term.SegmentLen) != b.segmentLen {
		t.Errorf("Terminate tells of a segment of %d octets, it had %d", term.SegmentLen, b.segmentLen)
	}
	err := v.ended()
	var te *TerminateError
	if !errors.As(err, &te) || te.Remote || te.Cause != b.cause || !errors.Is(err, b.cause) {
		t.Errorf("the queue pair says %v", err)
	}
	var recv, sent []Status
	for _, c := range v.rest() {
		if c.ID >= 100 {
			recv = append(recv, c.Status)
		} else {
			sent = append(sent, c.Status)
		}
	}
	if fmt.Sprint(recv) != fmt.Sprint(b.recv) || fmt.Sprint(sent) != fmt.Sprint(b.sent) {
		t.Errorf("receives completed as %v, reads as %v, want %v and %v", recv, sent, b.recv, b.sent)
	}
	same(t, "Terminates counted", v.dev.Stats().TerminatesSent, 1)
	for i, m := range v.watched {
		if b.placed && (m == v.recv || m == v.open || m == v.sink) {
			continue
		}
		if !bytes.Equal(m.Bytes(), pristine[:len(m.Bytes())]) {
			t.Fatalf("region %d was changed", i)
		}
	}
	// All keys still work: the fault was that of one connection.
	p2 := openRaw(t, v.with(QPConfig{}), true, true)
	p2.send(p2.read(rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: uint32(v.readOnly.Key()), SourceTO: v.readOnly.Base()}))
	if s := p2.segment(rdmap.OpReadResponse); !bytes.Equal(s.Payload, bytes.Repeat([]byte{untouched}, 8)) {
		t.Fatalf("read % x afterwards", s.Payload)
	}
}
