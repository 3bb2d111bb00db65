package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/rds"
)

func chernobylOptions(t *testing.T) Options {
	o := serve(t)
	o.Provider, o.Depth, o.Batch = "", 0, 0
	o.Duration, o.Workers, o.Sizes, o.Baseline = 150*time.Millisecond, 20, []int{8 << 10}, true
	return o
}

// A rogue is refused and nobody else notices; on a plain connection its first bad
// key is the end for all.
func TestChernobylIsConfinedToTheRogue(t *testing.T) {
	o := chernobylOptions(t)
	o.Sizes, o.Repeat = []int{8 << 10, 1, 100_001}, 2
	if err := o.Validate(Chernobyl); err != nil {
		t.Fatal(err)
	}
	rep, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(Chernobyl))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 3 {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		s, p := row.RDS.Thirds, row.Plain.Thirds
		if !row.Finished || s.Errors != 0 || s.Refused == 0 || s.Unanswered != 0 || row.RDS.TCPConns != 1 || row.RDS.Latency == nil ||
			slices.Contains(s.Rates[:], 0) || len(s.Series) == 0 {
			t.Errorf("%s: %+v, %+v", row.Title, row.RDS, s)
		}
		if p.Errors != 20 || p.Rates[0] == 0 || p.Rates[2] != 0 || len(p.Series) == 0 {
			t.Errorf("%s on a plain connection: %+v", row.Title, p)
		}
	}
	var text, page, picture strings.Builder
	if err := errors.Join(rep.WriteText(&text), rep.WriteHTML(&page), rep.WriteSVG(&picture)); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]string{"20 errors of the others": text.String(), "a worker with bad keys": page.String(), "rogue, refused": picture.String()} {
		if !strings.Contains(s, what) {
			t.Errorf("no %q in\n%s", what, s)
		}
	}
}

// The same with sockets, which share the connection of two nodes.
func TestChernobylOfSockets(t *testing.T) {
	o := chernobylOptions(t)
	o.Provider, o.RDS, o.Sizes = rds.ProviderNode, true, []int{8 << 10, 1}
	if err := o.Validate(Chernobyl); err != nil {
		t.Fatal(err)
	}
	rep, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(Chernobyl))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 2 {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		s := row.RDS.Thirds
		if !row.Finished || s.Errors != 0 || s.Refused == 0 || s.Cut != 0 || len(s.Rounds) != socketRounds || row.RDS.TCPConns != 1 || row.RDS.Latency == nil || len(s.Series) == 0 || row.Plain != nil {
			t.Errorf("%s: %+v, %+v", row.Title, row.RDS, s)
		}
	}
	var text, picture strings.Builder
	if err := errors.Join(rep.WriteText(&text), rep.WriteSVG(&picture)); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]string{"20 sockets write 8 KiB": text.String(), "0 cut": text.String(), "operations of the sockets": picture.String()} {
		if !strings.Contains(s, what) {
			t.Errorf("no %q in\n%s", what, s)
		}
	}
}

// What else a machine does changes all rates; a round is compared with what is beside it.
func TestRoundsAreComparedWithTheirNeighbours(t *testing.T) {
	t.Parallel()
	s := newThirds([]float64{100, 90, 100, 450, 900, 810, 900})
	if !slices.Equal(s.Rounds, []float64{0.9, 0.9, 0.9}) || s.kept() != 0.9 || s.Rates != [thirds]float64{100, 450, 900} {
		t.Errorf("%+v keeps %v", s, s.kept())
	}
	if s := newThirds([]float64{10, 0, 0}); s.kept() != 0 || newThirds([]float64{0, 1, 0}).kept() != 0 {
		t.Errorf("%+v keeps %v", s, s.kept())
	}
}

func TestInterruptedChernobylKeepsWhatThereIs(t *testing.T) {
	o := chernobylOptions(t)
	interrupted(t, o, o.Plan(Chernobyl))
}

// What a server checks finds each way in which a message or what was written
// before it may be wrong.
func TestWrittenIsVerified(t *testing.T) {
	t.Parallel()
	const size = 100
	fresh := func() *written {
		w := &written{worker: 7, mem: make([]byte, places*size), size: size}
		for n := range uint64(places) {
			fillPattern(w.mem[n*size:][:size], placeSeed(7, n))
		}
		return w
	}
	message := func(worker int, n uint64) []byte {
		b := make([]byte, messageSize)
		putMessage(b, worker, n)
		return b
	}
	w := fresh()
	for n := range uint64(places) {
		if err := w.check(message(7, n)); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(w *written) []byte{
		"lost":           func(*written) []byte { return message(7, 1) },
		"doubled":        func(w *written) []byte { w.n = 1; return message(7, 0) },
		"another's":      func(*written) []byte { return message(8, 0) },
		"short":          func(*written) []byte { return message(7, 0)[:8] },
		"not written":    func(w *written) []byte { clear(w.mem); return message(7, 0) },
		"first byte":     func(w *written) []byte { w.mem[0] ^= 1; return message(7, 0) },
		"last byte":      func(w *written) []byte { w.mem[size-1] ^= 0x80; return message(7, 0) },
		"another's data": func(w *written) []byte { fillPattern(w.mem[:size], placeSeed(8, 0)); return message(7, 0) },
		"older data":     func(w *written) []byte { w.n = places; return message(7, places) },
	} {
		w := fresh()
		m := damage(w)
		if err := w.check(m); err == nil {
			t.Errorf("%s: passes", name)
		}
	}
}

func TestChernobylBounds(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Options){
		"--workers": func(o *Options) { o.Workers = 0 },
		"at most":   func(o *Options) { o.Workers = maxWorkers; o.Sizes = []int{1 << 20} },
		"--size":    func(o *Options) { o.Sizes = []int{0} },
		"--sockets": func(o *Options) { o.RDS, o.Provider, o.Sizes = true, rds.ProviderNode, []int{300 << 10} },
	} {
		o := goodOptions()
		o.Provider, o.Workers, o.Sizes = "", 1000, []int{8192}
		if err := o.Validate(Chernobyl); err != nil {
			t.Fatal(err)
		}
		set(&o)
		if err := o.Validate(Chernobyl); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range o.Plan(Chernobyl) {
			if w.fits(IWARP, true) {
				t.Errorf("a server takes %+v", w)
			}
		}
	}
	w := Work{Kind: Chernobyl, Size: 64, Workers: 1, Verbs: true}
	for _, c := range []struct {
		t    Transport
		none bool
		want bool
	}{{IWARP, true, true}, {Plain, true, true}, {TCP, true, false}, {IWARP, false, false}, {RDS, false, false}, {RDS, true, false}} {
		if got := w.fits(c.t, c.none); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		w := Work{Kind: Chernobyl, Size: 64, Workers: 1}
		if got := w.fits(c.t, c.none); got != (c.t == RDS && !c.none) {
			t.Errorf("with sockets, %+v: %t", c, got)
		}
	}
}
