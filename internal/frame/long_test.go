package frame

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// Of a message that is too long for the sink the sink gets the header, when the last of the payload has come,
// in whatever pieces, and nothing of it is kept. Those in front and behind are whole.
func TestLongPayloadsAreThrownAway(t *testing.T) {
	t.Parallel()
	const most = 70_000
	sizes := []int{0, 100, most + 1, 50, most, wire.MaxPayload, 300_000, 3, most - 1}
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 1))
		sink := &placer{collector: collector{t: t, keep: true}}
		var (
			p    Parser
			pool buf.Pool
		)
		p.Init(sink, &pool, most, false)
		if err := cut(t, &p, stream(sizes...), r, []int{50, 1000, 1 << 16, 1 << 18}[seed%4]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, n := range sink.asked {
			if n > most {
				t.Errorf("seed %d: a place was asked for, for %d bytes", seed, n)
			}
		}
		if len(sink.headers) != len(sizes) {
			t.Fatalf("seed %d: %d messages, want %d", seed, len(sink.headers), len(sizes))
		}
		for i, n := range sizes {
			want := n
			if n > most {
				want = 0
			}
			if h := &sink.headers[i]; h.Length != uint32(n) || h.Sequence != uint64(i) || len(sink.bodies[i]) != want {
				t.Errorf("seed %d: message %d, of %d bytes: number %d, %d bytes, payload of %d", seed, i, n, h.Sequence, h.Length, len(sink.bodies[i]))
			}
		}
		if h, n := p.Remaining(); h != wire.HeaderSize || n != 0 {
			t.Errorf("Remaining = %d, %d after the last message", h, n)
		}
	}
}
