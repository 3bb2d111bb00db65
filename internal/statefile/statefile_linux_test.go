package statefile

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("fe80::1%eth0")
)

func opened(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What one process has stored its successor finds, without a word of farewell.
func TestSuccessorFindsWhatWasStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process: %v", err)
	}
	for _, port := range []uint16{2, 63, 64, 4000, 65535} {
		f.Address(here).Set(port)
	}
	f.Address(there).Set(7)
	f.Address(there).Clear(7)
	f.Address(here).Clear(64)
	p := f.Peer(here, there)
	p.Generation.Store(42)
	p.Next[0].Store(1 << 60)
	p.Next[7].Store(9)
	if f.Peer(here, there) != p {
		t.Error("a peer has two slots")
	}
	copied := filepath.Join(t.TempDir(), "killed") // as SIGKILL leaves it
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, path := range []string{path, copied} {
		g := opened(t, path)
		if got, want := g.Ports(), map[netip.Addr][]uint16{here: {2, 63, 4000, 65535}}; !reflect.DeepEqual(got, want) {
			t.Errorf("ports %v, want %v", got, want)
		}
		q := g.Peer(here, there)
		if q.Generation.Load() != 42 || q.Next[0].Load() != 1<<60 || q.Next[7].Load() != 9 || q.Next[1].Load() != 0 {
			t.Error("the peer is another")
		}
		g.Peer(there, here).Next[0].Store(5) // takes a slot of its own
		if q.Next[0].Load() != 1<<60 {
			t.Error("slots overlap")
		}
		g.Close()
	}
}

// What another boot, another layout or somebody's scissors have left counts for nothing.
func TestForeignContentsAreDiscarded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b []byte) []byte{
		"another boot":   func(b []byte) []byte { b[offBoot]++; return b },
		"another layout": func(b []byte) []byte { b[0]++; return b },
		"cut":            func(b []byte) []byte { return b[:5000] },
		"empty":          func([]byte) []byte { return nil },
	} {
		path := filepath.Join(t.TempDir(), "state")
		f := opened(t, path)
		f.Address(here).Set(4000)
		f.Peer(here, there).Next[0].Store(1)
		f.Close()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, spoil(b), 0o600); err != nil {
			t.Fatal(err)
		}
		f = opened(t, path)
		if ports := f.Ports(); len(ports) != 0 || f.Peer(here, there).Next[0].Load() != 0 {
			t.Errorf("%s: ports %v", name, ports)
		}
		f.Close()
	}
}

// Slots are bounded; who finds none goes without.
func TestSlotsAreBounded(t *testing.T) {
	t.Parallel()
	f := opened(t, filepath.Join(t.TempDir(), "state"))
	defer f.Close()
	a := here
	for range maxAddresses {
		if f.Address(a) == nil {
			t.Fatalf("no slot for %v", a)
		}
		a = a.Next()
	}
	if f.Address(a) != nil {
		t.Error("a slot too many")
	}
	for range maxPeers {
		if f.Peer(here, a) == nil {
			t.Fatalf("no slot for %v", a)
		}
		a = a.Next()
	}
	if f.Peer(here, a) != nil {
		t.Error("a peer too many")
	}
}
