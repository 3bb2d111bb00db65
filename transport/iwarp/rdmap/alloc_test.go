//go:build !live

package rdmap

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

func TestMessagesDoNotAllocate(t *testing.T) {
	const ops = OpsRFC5040 | OpsRFC7306
	buf := make([]byte, 0, ddp.UntaggedLen+maxTerminate)
	segments := map[string][]byte{}
	for _, name := range []string{"rping-send", "rping-read-request", "rping-write", "atomic-swap", "atomic-response", "immediate", "terminate-read"} {
		segments[name] = readSegment(t, name)
	}
	cheap := func(what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	for name, b := range segments {
		var s Segment
		cheap(name, func() {
			if s.Parse(b, ops) != nil || decodeBody(&s) != nil {
				t.Fatal(name)
			}
			if s.Parse(b[:9], ops) == nil || s.Parse(b, 0) == nil {
				t.Fatal(name)
			}
		})
	}
	term := NewTerminate(CauseBounds, segments["rping-read-request"])
	cheap("appending", func() {
		b := TerminateHeader().AppendTo(buf)
		b = term.AppendTo(b)
		b = aRead.AppendTo(b[:0])
		b = AtomicRequest{}.AppendTo(b[:0])
		b = AtomicResponse{}.AppendTo(b[:0])
		Immediate(7).AppendTo(b[:0])
	})
}
