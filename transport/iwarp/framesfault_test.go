//go:build !live

package iwarp

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A segment that the socket has taken a part of is ended before a Terminate follows:
// in its place a peer without a CRC would take that for the rest of a message.
func TestSinkSegmentEndsBeforeTerminate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, crc := range []bool{false, true} {
			for _, size := range []int{100, 3000, 60_000} {
				e, x, _ := openSink(t, Config{SendBuffer: 4 << 10}, true, crc)
				x.raw.send(x.tell(credit(0, 1<<20)))
				x.sync()
				msg := bytes.Repeat([]byte{0x5a}, size)
				for {
					n, err := e.direct(msg)
					must(t, err)
					if n < size {
						break
					}
				}
				x.raw.send(x.tell(credit(1<<30, 0)))
				messages := 0
				for {
					s, other, err := x.take()
					if err != nil {
						t.Fatalf("no Terminate but %v", err)
					}
					if other && s.Op == rdmap.OpTerminate {
						break
					}
					if !other {
						continue
					}
					if messages++; !bytes.Equal(s.Payload, msg[:len(s.Payload)]) {
						t.Fatalf("a segment of %d bytes is not what was sent", len(s.Payload))
					}
				}
				if messages == 0 {
					t.Error("no message has come")
				}
				x.gone()
				_ = e.ended()
			}
		}
	})
}

// With a CRC the caller's memory is copied at once: others may change it.
func TestSinkCopiesWhatHasACRC(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{false, true} {
		b := batch{pool: new(buf.Pool), crc: crc}
		mem := make([]byte, 10*copyLeast)
		b.begin(len(mem))
		b.borrow(mem)
		b.end(mark{})
		if (len(b.own) == 0) != crc {
			t.Errorf("CRC %v: %d pieces of the caller's memory", crc, len(b.own))
		}
		b.release()
	}
}

// What is kept of a batch is the rest of a segment whose beginning is on the wire, so
// it is written also when the queue pair ends before another byte of it is; what has
// not begun is not.
func TestBatchKeepsWhatHasBegun(t *testing.T) {
	t.Parallel()
	for _, written := range []int{0, 1, 30, 500} {
		b := batch{pool: new(buf.Pool)}
		mem := bytes.Repeat([]byte{0x5a}, 1000)
		b.begin(len(mem))
		b.borrow(mem)
		b.end(mark{})
		size := b.size
		if end, ok := (&frameSender{cuts: []frameCut{{n: len(mem), last: true}}}).unbegun(written); ok {
			b.trim(end)
		}
		b.unlend(written)
		clear(mem)
		b.wrote(written)
		rest, ok := b.cut(nil)
		want := size - written
		if written == 0 {
			want = 0
		}
		if !ok || len(rest) != want || written > 0 && written < 500 && bytes.Count(rest, []byte{0x5a}) < 900 {
			t.Errorf("%d of %d bytes written: %d are left, %v", written, size, len(rest), ok)
		}
		b.release()
	}
}

// With a CRC all of a batch is staged. Long segments do not have what was staged before
// copied to a longer buffer.
func TestBatchWithCRCIsStagedOnce(t *testing.T) {
	t.Parallel()
	var pool buf.Pool
	b := batch{pool: &pool, crc: true}
	segment := make([]byte, mpa.MaxULPDU)
	b.add(segment)
	stage := b.stage
	for !b.full() {
		b.add(segment)
	}
	if b.stage != stage {
		t.Errorf("%d octets have moved to another buffer", len(stage.B))
	}
	b.release()
}
