//go:build !live

package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

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
		rdstest.Must(t, w.check(message(7, n)))
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
		rdstest.Must(t, o.Validate(Chernobyl))
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
