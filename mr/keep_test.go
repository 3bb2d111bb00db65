package mr

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// A region that is restored on another device has its key, rights, address and peer, and
// the key that its base gets next is a new one. No index is given twice.
func TestRestoredRegionKeepsItsKey(t *testing.T) {
	t.Parallel()
	old, err := New(Config{PeerLookUps: 64, LookUps: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	peer := netip.MustParseAddr("10.0.0.7")
	small, large := make([]byte, 4096), make([]byte, 100_000)
	was := old.NewOwner(OwnerConfig{})
	domain := old.NewDomain()
	var keys []Key
	for _, opt := range []Options{
		{Domain: domain, Rights: RemoteRead, Base: 17, Peer: peer},
		{Domain: domain, Rights: LocalWrite | RemoteWrite, Base: 1 << 20, Once: true},
	} {
		mem := small
		if opt.Once {
			mem = large
		}
		k, err := was.Map(mem, opt)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
		for i := range byte(20) { // 20 peers have the key
			old.Give(k, old.Peer(netip.AddrFrom4([4]byte{10, 0, 1, i})))
		}
	}
	next, err := New(Config{Seed: old.Secret(), PeerLookUps: 64, LookUps: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	is, home := next.NewOwner(OwnerConfig{}), next.NewDomain()
	released := 0
	for _, k := range keys {
		kept, mem, err := was.Keep(k)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(kept.Known)
		if len(kept.Known) < 20 {
			t.Errorf("%d peers have the key", len(kept.Known))
		}
		if err := is.Restore(mem, kept, Options{Domain: home, Released: func() { released++ }}); err != nil {
			t.Fatal(err)
		}
		if err := is.Restore(mem, kept, Options{Domain: home}); !errors.Is(err, ErrKey) {
			t.Errorf("restored twice: %v", err)
		}
		again, at, err := is.Keep(k)
		slices.Sort(again.Known)
		if err != nil || !reflect.DeepEqual(again, kept) || &at[0] != &mem[0] || len(at) != len(mem) {
			t.Errorf("%+v, want %+v: %v", again, kept, err)
		}
	}
	r := next.NewReader("test", nil)
	defer r.Close()
	given := make(map[Key]bool)
	for range 100 {
		k, err := is.Map(small, Options{Domain: home, Rights: RemoteRead})
		if err != nil {
			t.Fatal(err)
		}
		if given[k] || slices.Contains(keys, k) {
			t.Fatalf("key %v is given twice", k)
		}
		given[k] = true
	}
	if err := is.FreeInvalidate(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	if _, _, err := is.Keep(keys[0]); !errors.Is(err, ErrKey) {
		t.Errorf("a freed region is kept: %v", err)
	}
	if _, _, err := was.Keep(keys[0] + 1); !errors.Is(err, ErrKey) {
		t.Errorf("a key that names nothing is kept: %v", err)
	}
}
