package ddp

import (
	"math"
	"testing"
)

// Tagged segments continue each other until the last flag (RFC 5041 section 5.2).
func TestRunTakesOnlyWhatContinues(t *testing.T) {
	t.Parallel()
	type arrival struct {
		h    Tagged
		n    int
		want error
		open bool // afterwards
	}
	seg := func(stag uint32, to uint64, last bool) Tagged {
		return Tagged{STag: stag, TO: to, Last: last, ULP: 0x40}
	}
	for name, arrivals := range map[string][]arrival{
		"whole messages anywhere":  {{seg(7, 100, true), 5, nil, false}, {seg(8, 3, true), 5, nil, false}, {seg(7, 100, true), 5, nil, false}},
		"three segments":           {{seg(7, 100, false), 5, nil, true}, {seg(7, 105, false), 1, nil, true}, {seg(7, 106, true), 9, nil, false}, {seg(9, 0, true), 1, nil, false}},
		"a gap":                    {{seg(7, 100, false), 5, nil, true}, {seg(7, 106, true), 5, ErrBounds, true}, {seg(7, 105, true), 5, nil, false}},
		"an overlap":               {{seg(7, 100, false), 5, nil, true}, {seg(7, 104, true), 5, ErrBounds, true}},
		"another STag":             {{seg(7, 100, false), 5, nil, true}, {seg(8, 105, true), 5, ErrInvalidSTag, true}},
		"STag before TO":           {{seg(7, 100, false), 5, nil, true}, {seg(8, 99, true), 5, ErrInvalidSTag, true}},
		"another kind":             {{seg(7, 100, false), 5, nil, true}, {Tagged{STag: 7, TO: 105, Last: true, ULP: 0x42}, 5, ErrMixed, true}},
		"another kind, empty":      {{seg(7, 100, false), 5, nil, true}, {Tagged{Last: true, ULP: 0x42}, 0, ErrMixed, true}},
		"nothing, with no meaning": {{seg(0xdeadbeef, math.MaxUint64, true), 0, nil, false}},
		"an empty segment last":    {{seg(7, 100, false), 5, nil, true}, {seg(0, 0, true), 0, nil, false}, {seg(8, 1, true), 5, nil, false}},
		"an empty segment within":  {{seg(7, 100, false), 5, nil, true}, {seg(0, 0, false), 0, nil, true}, {seg(7, 105, true), 5, nil, false}},
		"an empty segment first":   {{seg(0, 0, false), 0, nil, false}, {seg(7, 100, true), 5, nil, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Run
			for i, a := range arrivals {
				if err := r.Check(&a.h, a.n); err != a.want {
					t.Fatalf("segment %d, %+v: %v, want %v", i, a.h, err, a.want)
				}
				if a.want == nil {
					r.Advance(&a.h, a.n)
				}
				if r.Open() != a.open {
					t.Fatalf("after segment %d, %+v: Open is %v", i, a.h, r.Open())
				}
				if a.want == nil && a.open && a.n > 0 && (r.stag != a.h.STag || r.TO() != a.h.TO+uint64(a.n)) {
					t.Fatalf("after segment %d, %+v: goes on at %#x:%d", i, a.h, r.stag, r.TO())
				}
			}
		})
	}
}
