package xctl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A failed Write, a message that builds on it, and one that does not.
func TestFailedWriteCostsItsMessageOnly(t *testing.T) {
	t.Parallel()
	var r WriteReceiver
	r.Done(true)
	if r.Next() != 2 {
		t.Errorf("ordinal %d", r.Next())
	}
	r.Done(false)
	r.Done(true)
	for dep, want := range map[uint32]bool{0: true, 1: false, 2: false, 3: true} {
		if ok, err := r.Check(dep); ok != want || err != nil {
			t.Errorf("depends on %d: %v, %v", dep, ok, err)
		}
	}
	if _, err := r.Check(4); !errors.Is(err, rdmap.CauseStreamCatastrophic) {
		t.Errorf("depends on a Write to come: %v", err)
	}
	if a, due := r.Ack(); !due || a.Ordinal != 3 {
		t.Errorf("%v, %v", a, due)
	}
	if _, due := r.Ack(); due {
		t.Error("acknowledged twice")
	}
}

func TestWriteOutcomesKeepTheOrder(t *testing.T) {
	t.Parallel()
	var s WriteSender
	for id := range uint64(20) {
		if n := s.Begin(id + 100); n != uint32(id+1) {
			t.Fatalf("ordinal %d", n)
		}
	}
	must(t, errors.Join(s.Error(WriteError{Ordinal: 3, Cause: rdmap.CauseDDPBounds}), s.Ack(WriteAck{2})))
	var got []WriteOutcome
	for o, ok := s.Pop(); ok; o, ok = s.Pop() {
		got = append(got, o)
	}
	if len(got) != 3 || got[1] != (WriteOutcome{ID: 101, OK: true}) || got[2] != (WriteOutcome{ID: 102, Cause: rdmap.CauseDDPBounds}) {
		t.Errorf("%+v", got)
	}
	for name, err := range map[string]error{
		"acknowledged before it was sent": s.Ack(WriteAck{21}),
		"failed before it was sent":       s.Error(WriteError{Ordinal: 21}),
		"failed after it was placed":      s.Error(WriteError{Ordinal: 2}),
		"failed twice":                    errors.Join(s.Error(WriteError{Ordinal: 5}), s.Error(WriteError{Ordinal: 5})),
	} {
		if !errors.Is(err, rdmap.CauseStreamCatastrophic) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if id, ok := s.Lost(); !ok || id != 103 || s.Outstanding() != 16 {
		t.Errorf("lost %d, %v, %d left", id, ok, s.Outstanding())
	}
}

// TestMessagesFollowTheirWrites draws units of Writes and a message, some of
// which fail, near the wrap of the ordinals. A message is delivered just if no
// Write from its first on has failed, and the sender hears the same of each Write.
func TestMessagesFollowTheirWrites(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		start := -uint32(rng.IntN(300))
		s := WriteSender{last: start, acked: start}
		r := WriteReceiver{last: start, told: start}
		failed := map[uint64]bool{}
		var since []bool // outcome of the Writes so far, in the order of ordinals
		id, heard := uint64(0), uint64(0)
		var b Backlog
		for range 200 {
			dep, first := uint32(0), len(since)
			for i := range rng.IntN(4) {
				n := s.Begin(id)
				if i == 0 {
					dep = n
				}
				ok := rng.IntN(4) > 0
				if n != r.Next() || n == 0 {
					t.Fatalf("seed %d: ordinal %d there, %d here", seed, r.Next(), n)
				}
				r.Done(ok)
				if !ok {
					failed[id] = true
					b.WriteError(WriteError{Ordinal: n, Cause: rdmap.CauseDDPBounds})
				}
				since = append(since, ok)
				id++
			}
			want := true
			if dep != 0 {
				for _, ok := range since[first:] {
					want = want && ok
				}
			}
			if ok, err := r.Check(dep); ok != want || err != nil {
				t.Fatalf("seed %d: a message on Write %d: %v, %v", seed, dep, ok, err)
			}
			if a, due := r.Ack(); due && rng.IntN(2) == 0 {
				b.WriteAck(a)
			} else if due {
				r.told-- // later
			}
			list, _ := collect(b.AppendTo(nil, 60))
			for _, rec := range list {
				var err error
				switch rec := rec.(type) {
				case WriteError:
					err = s.Error(rec)
				case WriteAck:
					err = s.Ack(rec)
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			for o, ok := s.Pop(); ok; o, ok = s.Pop() {
				if o.ID != heard || o.OK == failed[o.ID] {
					t.Fatalf("seed %d: %+v after %d", seed, o, heard)
				}
				heard++
			}
		}
		if heard < id/2 {
			t.Fatalf("seed %d: heard of %d of %d Writes", seed, heard, id)
		}
	}
}

// A failure of two thousand million Writes ago is not one of the future.
func TestOldFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	var r WriteReceiver
	r.Done(false)
	r.last = 1 << 31 // far on
	r.Done(true)
	if ok, err := r.Check(r.last); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
