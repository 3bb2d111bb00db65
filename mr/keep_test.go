package mr

import (
	"reflect"
	"slices"
	"testing"
)

// A region that is restored on another device has its key, rights, address and peer, and
// the key that its base gets next is a new one. No index is given twice.
func TestRestoredRegionKeepsItsKey(t *testing.T) {
	t.Parallel()
	old := newRig(t, Config{PeerLookUps: 64, LookUps: 1024})
	next := newRig(t, Config{Seed: old.Secret(), PeerLookUps: 64, LookUps: 1024})
	small, large := make([]byte, 4096), make([]byte, 100_000)
	keys := []Key{
		old.mapped(old.own, small, Options{Domain: old.dom, Rights: RemoteRead, Base: 17, Peer: peerA}),
		old.mapped(old.own, large, Options{Domain: old.dom, Rights: LocalWrite | RemoteWrite, Base: 1 << 20, Once: true}),
	}
	released := 0
	for _, k := range keys {
		for i := range 20 { // 20 peers have the key
			old.Give(k, old.Peer(guesser(i)))
		}
		kept, mem, err := old.own.Keep(k)
		old.ok(err)
		slices.Sort(kept.Known)
		if len(kept.Known) < 20 {
			t.Errorf("%d peers have the key", len(kept.Known))
		}
		next.ok(next.own.Restore(mem, kept, Options{Domain: next.dom, Released: func() { released++ }}))
		next.want(next.own.Restore(mem, kept, Options{Domain: next.dom}), ErrKey) // restored twice
		again, at, err := next.own.Keep(k)
		slices.Sort(again.Known)
		if err != nil || !reflect.DeepEqual(again, kept) || &at[0] != &mem[0] || len(at) != len(mem) {
			t.Errorf("%+v, want %+v: %v", again, kept, err)
		}
	}
	given := make(map[Key]bool)
	for range 100 {
		k := next.mapped(next.own, small, next.options(RemoteRead))
		if given[k] || slices.Contains(keys, k) {
			t.Fatalf("key %v is given twice", k)
		}
		given[k] = true
	}
	next.ok(next.own.FreeInvalidate(t.Context(), keys[0]))
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	_, _, err := next.own.Keep(keys[0])
	next.want(err, ErrKey) // freed
	_, _, err = old.own.Keep(keys[0] + 1)
	old.want(err, ErrKey) // names nothing
}
