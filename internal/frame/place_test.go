package frame

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// placer is a collector that notes what it is asked to have a place for.
type placer struct {
	collector
	pool  buf.Pool
	asked []uint32
}

func (p *placer) Place(h *wire.Header) *buf.Buf {
	p.asked = append(p.asked, h.Length)
	return p.pool.Get(int(h.Length))
}

// The sink is asked for the place of a long message that has come in part only when whole
// messages before have had a sixteenth of its length; until then its bytes are collected.
// What has begun is told, with its number.
func TestPlaceIsForStreamsThatHaveSentSomething(t *testing.T) {
	t.Parallel()
	sink := &placer{collector: collector{t: t}}
	var (
		p    Parser
		pool buf.Pool
	)
	p.Init(sink, &pool, 1<<20, false)
	begun := func(number uint64, left int) {
		t.Helper()
		p.Flush()
		if n, l := p.Begun(); n != number || l != left {
			t.Errorf("message %d lacks %d bytes, expected %d, %d", n, l, number, left)
		}
	}
	begun(0, 0)
	for i, n := range []int{1 << 20, 100, 60_000, 1 << 20} {
		b := stream(n)
		for at, cut := range []int{20, wire.HeaderSize + n/2, len(b)} {
			from := []int{0, 20, wire.HeaderSize + n/2}[at]
			if err := p.Feed(b[from:cut]); err != nil {
				t.Fatal(err)
			}
			switch at {
			case 0:
				begun(uint64(i), wire.HeaderSize-20)
			case 1:
				begun(uint64(i), n-n/2)
			case 2:
				begun(uint64(i+1), 0)
			}
		}
	}
	if want := []uint32{100, 60_000, 1 << 20}; !slices.Equal(sink.asked, want) || sink.n != 4 {
		t.Errorf("asked for places of %d bytes, expected %d; %d messages", sink.asked, want, sink.n)
	}
}
