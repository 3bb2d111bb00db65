package frame

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// collector keeps a copy of every message.
type collector struct {
	t       testing.TB
	keep    bool
	headers []wire.Header
	bodies  [][]byte
	n       int
	batch   bool
	owned   int
}

func (c *collector) Begin() {
	if c.batch {
		c.t.Fatal("Begin twice")
	}
	c.batch = true
}

func (c *collector) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	if !c.batch {
		c.t.Fatal("Message outside a batch")
	}
	c.n++
	if c.keep {
		c.headers = append(c.headers, *h)
		c.bodies = append(c.bodies, bytes.Clone(payload))
	}
	if owned != nil {
		c.owned++
		if len(payload) != len(owned.B) || &payload[0] != &owned.B[0] {
			c.t.Fatal("payload is not the buffer's")
		}
		owned.Release()
	}
}

func (c *collector) Place(*wire.Header) *buf.Buf { return nil }

func (c *collector) End() {
	if !c.batch {
		c.t.Fatal("End without Begin")
	}
	c.batch = false
}

func stream(sizes ...int) []byte {
	var b []byte
	for i, n := range sizes {
		h := wire.Header{Sequence: uint64(i), Length: uint32(n), Sport: 1, Dport: 2}
		b = h.AppendTo(b)
		for j := range n {
			b = append(b, byte(i+j*7))
		}
	}
	return b
}

// cut feeds b in pieces of up to most bytes, some of them through Space.
func cut(t testing.TB, p *Parser, b []byte, r *rand.Rand, most int) error {
	here := 0
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(most))
		if dst, last := p.Space(); dst != nil && r.IntN(2) == 0 {
			if last != (len(dst) == p.need-p.got) {
				t.Fatal("Space says last, and it is not, or the reverse")
			}
			n = copy(dst, b[:n])
			p.Filled(n)
		} else if err := p.Feed(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if p.inBody {
			here = p.got
		}
		if p.body != nil && cap(p.body.B) > max(stageMin, stageFactor*(int(p.seen)+here+1)) {
			t.Fatalf("%d bytes kept for %d that arrived, and %d before", cap(p.body.B), here, p.seen)
		}
		if r.IntN(3) == 0 {
			p.Flush()
		}
	}
	p.Flush()
	return nil
}

func TestCutsDoNotMatter(t *testing.T) {
	sizes := []int{0, 1, 100, 0, 70000, 3, 1 << 20, 300000, 16 << 10, 0, 1<<20 - 1}
	b := stream(sizes...)
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := &collector{t: t, keep: true}
		var p Parser
		var pool buf.Pool
		p.Init(c, &pool, wire.MaxPayload, false)
		if err := cut(t, &p, b, r, []int{50, 1000, 1 << 16, 1 << 18}[seed%4]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var back []byte
		for i := range c.headers {
			back = append(c.headers[i].AppendTo(back), c.bodies[i]...)
		}
		if !bytes.Equal(back, b) {
			t.Fatalf("seed %d: %d messages, not the ones that went in", seed, len(c.headers))
		}
		if h, n := p.Remaining(); h != wire.HeaderSize || n != 0 {
			t.Errorf("Remaining = %d, %d after the last message", h, n)
		}
	}
}

func TestRefusesWhatNoPeerSends(t *testing.T) {
	good := stream(10, 20)
	for _, tt := range []struct {
		name string
		h    wire.Header
		lax  bool
		want error
	}{
		{"too long for the sink alone", wire.Header{Length: 1001}, false, nil},
		{"longest of RDS", wire.Header{Length: wire.MaxPayload}, false, nil},
		{"too long", wire.Header{Length: wire.MaxPayload + 1}, false, transport.ErrTooLong},
		{"largest length", wire.Header{Length: 1<<32 - 1}, true, transport.ErrTooLong},
		{"padding", wire.Header{Padding: 1}, false, transport.ErrBadHeader},
		{"padding, lax", wire.Header{Padding: 1}, true, nil},
		{"unknown flags", wire.Header{Flags: 0xf8}, false, nil},
		{"at the bound", wire.Header{Length: 1000}, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{t: t}
			var p Parser
			p.Init(c, new(buf.Pool), 1000, tt.lax)
			err := p.Feed(tt.h.AppendTo(bytes.Clone(good)))
			p.Flush()
			if !errors.Is(err, tt.want) || c.n < 2 {
				t.Errorf("%v after %d messages, expected %v", err, c.n, tt.want)
			}
			if tt.want != nil && !errors.Is(p.Feed(good), tt.want) {
				t.Error("the error is not final")
			}
		})
	}
}

func TestRemainingCountsDown(t *testing.T) {
	c := &collector{t: t}
	var p Parser
	p.Init(c, new(buf.Pool), wire.MaxPayload, false)
	b := stream(100)
	for i := range b {
		if err := p.Feed(b[i : i+1]); err != nil {
			t.Fatal(err)
		}
		p.Flush()
		h, n := p.Remaining()
		want := [2]uint64{uint64(wire.HeaderSize - i - 1), 0}
		if i >= wire.HeaderSize-1 {
			want = [2]uint64{0, uint64(len(b) - i - 1)}
		}
		if i == len(b)-1 {
			want = [2]uint64{wire.HeaderSize, 0}
		}
		if h != want[0] || n != want[1] {
			t.Fatalf("after %d bytes: %d, %d", i+1, h, n)
		}
	}
}

// A header that announces the longest payload, and stops there, costs one stage.
func TestStalledMessageCostsLittle(t *testing.T) {
	h := wire.Header{Length: wire.MaxPayload}
	for here := range 20 {
		var p Parser
		p.Init(&collector{t: t}, new(buf.Pool), wire.MaxPayload, false)
		if err := p.Feed(append(h.AppendTo(nil), make([]byte, here)...)); err != nil {
			t.Fatal(err)
		}
		if dst, last := p.Space(); len(dst) != stageMin-here || last || cap(p.body.B) != stageMin {
			t.Errorf("%d bytes arrived: room for %d, %v, in %d", here, len(dst), last, cap(p.body.B))
		}
		p.Reset()
	}
}

// A stream that has brought a sixteenth of it is trusted with the longest payload:
// in steps, a message that began in the midst of a read was copied up to twice.
func TestStreamEarnsWholeBuffers(t *testing.T) {
	const enough = wire.MaxPayload / stageFactor
	h := wire.Header{Length: wire.MaxPayload}
	for _, c := range []struct {
		before []int
		want   int
	}{
		{[]int{enough / 2, enough/2 - 2}, wire.MaxPayload / 2},
		{[]int{enough / 2, enough/2 - 1}, wire.MaxPayload}, // one more byte of it counts
		{[]int{1000, wire.MaxPayload}, wire.MaxPayload},
	} {
		var p Parser
		p.Init(&collector{t: t}, new(buf.Pool), wire.MaxPayload, false)
		if err := p.Feed(h.AppendTo(stream(c.before...))); err != nil {
			t.Fatal(err)
		}
		if dst, last := p.Space(); len(dst) != c.want || last != (c.want == wire.MaxPayload) {
			t.Errorf("after %d: room for %d, last %v, want %d", c.before, len(dst), last, c.want)
		}
		p.Reset()
		p.Init(&collector{t: t}, new(buf.Pool), wire.MaxPayload, false)
		if err := p.Feed(h.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if dst, _ := p.Space(); len(dst) != stageMin {
			t.Errorf("a new stream: room for %d", len(dst))
		}
		p.Reset()
	}
}

// The growth of a staged payload must end at its length, whatever it is.
func TestStage(t *testing.T) {
	for _, need := range []int{1, 511, 64 << 10, 64<<10 + 1, 1<<20 - 5, 1 << 20, 3 << 20, 1 << 30} {
		for here := 0; here < need; {
			n := stage(need, uint64(here+1))
			if n <= here || n > need {
				t.Fatalf("stage(%d, %d) = %d", need, here+1, n)
			}
			here = n
		}
	}
}

func TestParserAllocatesNothing(t *testing.T) {
	c := &collector{t: t}
	var p Parser
	p.Init(c, new(buf.Pool), wire.MaxPayload, false)
	b := stream(64, 1000, 70000, 0)
	if n := testing.AllocsPerRun(200, func() {
		for rest := b; len(rest) > 0; {
			k := min(len(rest), 999)
			if err := p.Feed(rest[:k]); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		p.Flush()
	}); n != 0 {
		t.Errorf("%v allocations for four messages", n)
	}
}

// FuzzParser: a stream parsed whole and parsed in pieces gives the same
// messages and the same error, and costs no more memory than it may.
func FuzzParser(f *testing.F) {
	f.Add(stream(0, 5, 100), uint64(1))
	f.Add(stream(70000)[:60000], uint64(2))
	f.Add(bytes.Repeat([]byte{0xff}, 100), uint64(3))
	long := wire.Header{Length: wire.MaxPayload}
	f.Add(append(long.AppendTo(stream(3)), 1, 2, 3), uint64(4))
	padded := wire.Header{Padding: 7}
	f.Add(padded.AppendTo(stream(3, 4)), uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		var pool buf.Pool
		whole := &collector{t: t, keep: true}
		var p Parser
		p.Init(whole, &pool, wire.MaxPayload, false)
		wantErr := p.Feed(b)
		p.Flush()
		p.Reset()

		pieces := &collector{t: t, keep: true}
		p.Init(pieces, &pool, wire.MaxPayload, false)
		err := cut(t, &p, b, rand.New(rand.NewPCG(seed, 0)), 1+int(seed%100))
		p.Flush()
		p.Reset()
		if err != wantErr || len(whole.headers) != len(pieces.headers) {
			t.Fatalf("%d messages and %v in one piece, %d and %v in many",
				len(whole.headers), wantErr, len(pieces.headers), err)
		}
		for i, h := range whole.headers {
			if h != pieces.headers[i] || !bytes.Equal(whole.bodies[i], pieces.bodies[i]) {
				t.Fatalf("message %d differs", i)
			}
		}
	})
}
