package ddp

import (
	"math"
	"testing"
)

type arrival struct {
	h    Untagged
	n    int
	want error // nil: it is taken
}

func drive(t *testing.T, q *Queue, arrivals []arrival) {
	t.Helper()
	for i, a := range arrivals {
		if err := q.Check(&a.h); err != a.want {
			t.Fatalf("segment %d, %+v: %v, want %v", i, a.h, err, a.want)
		}
		if a.want == nil {
			q.Advance(&a.h, a.n)
			if q.Open() == a.h.Last {
				t.Fatalf("after segment %d, %+v: Open is %v", i, a.h, q.Open())
			}
		}
	}
}

// RFC 5041 sections 5.1 and 7.1: messages of a queue are numbered from 1, their
// segments lie end to end, and whatever else comes is refused without changing
// what is expected.
func TestQueueTakesOnlyWhatComesNext(t *testing.T) {
	t.Parallel()
	seg := func(msn, mo uint32, last bool) Untagged { return Untagged{MSN: msn, MO: mo, Last: last, ULP: 0x43} }
	for name, arrivals := range map[string][]arrival{
		"whole messages": {{seg(1, 0, true), 8, nil}, {seg(2, 0, true), 0, nil}, {seg(3, 0, true), 1, nil}},
		"three segments": {
			{seg(1, 0, false), 100, nil}, {seg(1, 100, false), 50, nil}, {seg(1, 150, true), 7, nil}, {seg(2, 0, true), 1, nil}},
		"an empty last segment":         {{seg(1, 0, false), 100, nil}, {seg(1, 100, true), 0, nil}, {seg(2, 0, true), 0, nil}},
		"first message 0":               {{seg(0, 0, true), 8, ErrMSNRange}, {seg(1, 0, true), 8, nil}},
		"first message 2":               {{seg(2, 0, true), 8, ErrMSNRange}, {seg(1, 0, true), 8, nil}},
		"a message again":               {{seg(1, 0, true), 8, nil}, {seg(1, 0, true), 8, ErrMSNRange}, {seg(2, 0, true), 8, nil}},
		"a message left out":            {{seg(1, 0, true), 8, nil}, {seg(3, 0, true), 8, ErrMSNRange}},
		"the next before the last flag": {{seg(1, 0, false), 8, nil}, {seg(2, 0, true), 8, ErrMSNRange}, {seg(1, 8, true), 8, nil}},
		"the middle first":              {{seg(1, 4, false), 8, ErrInvalidMO}, {seg(1, 0, true), 8, nil}},
		"a gap":                         {{seg(1, 0, false), 8, nil}, {seg(1, 9, true), 1, ErrInvalidMO}},
		"an overlap":                    {{seg(1, 0, false), 8, nil}, {seg(1, 7, true), 1, ErrInvalidMO}},
		"the first segment again":       {{seg(1, 0, false), 8, nil}, {seg(1, 0, false), 8, ErrInvalidMO}},
		"MSN is looked at before MO":    {{seg(2, 9, true), 8, ErrMSNRange}},
		"an offset left over":           {{seg(1, 0, false), 8, nil}, {seg(1, 8, true), 8, nil}, {seg(2, 16, true), 1, ErrInvalidMO}},
		"another kind in the middle": {
			{seg(1, 0, false), 8, nil},
			{Untagged{MSN: 1, MO: 8, Last: true, ULP: 0x45}, 8, ErrMixed},
			{seg(1, 8, true), 8, nil},
			{Untagged{MSN: 2, Last: true, ULP: 0x45}, 8, nil}},
		"other upper bits of RsvdULP": {
			{seg(1, 0, false), 8, nil}, {Untagged{MSN: 1, MO: 8, Last: true, ULP: 0x43, ULPData: 7}, 8, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive(t, new(Queue), arrivals)
		})
	}
}

func TestQueueNumbersWrap(t *testing.T) {
	t.Parallel()
	q := QueueAt(math.MaxUint32)
	if q.MSN() != math.MaxUint32 {
		t.Fatalf("expects %d", q.MSN())
	}
	drive(t, &q, []arrival{
		{Untagged{MSN: math.MaxUint32}, 5, nil},
		{Untagged{MSN: 0, MO: 5, Last: true}, 5, ErrMSNRange},
		{Untagged{MSN: math.MaxUint32, MO: 5, Last: true}, 5, nil},
		{Untagged{MSN: 0, Last: true}, 5, nil},
		{Untagged{MSN: 1, Last: true}, 5, nil},
	})
	first := QueueAt(1)
	if first != (Queue{}) {
		t.Error("a queue begins elsewhere than at 1")
	}
}

// A message is shorter than 2^32 octets (RFC 5041 section 4.3): nothing fits
// behind that, so the offset does not come round to 0 again.
func TestQueueOffsetDoesNotWrap(t *testing.T) {
	t.Parallel()
	var q Queue
	q.Advance(&Untagged{MSN: 1}, math.MaxInt32) // in two steps, because int may have 32 bits
	q.Advance(&Untagged{MSN: 1}, math.MaxInt32-8)
	drive(t, &q, []arrival{{Untagged{MSN: 1, MO: math.MaxUint32 - 9}, 10, nil}})
	for _, mo := range []uint32{0, 1, math.MaxUint32} {
		if err := q.Check(&Untagged{MSN: 1, MO: mo, Last: true}); err != ErrInvalidMO {
			t.Errorf("offset %d: %v", mo, err)
		}
	}
}
