package statefile

import (
	"encoding/binary"
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

type peerName struct {
	local, remote netip.Addr
	generation    uint32
}

func peersOf(f *File) map[peerName]*Peer {
	all := make(map[peerName]*Peer)
	f.Peers(func(local, remote netip.Addr, p *Peer) { all[peerName{local, remote, p.Generation.Load()}] = p })
	return all
}

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
	if _, err := Open(path); !errors.Is(err, errInUse) {
		t.Errorf("a second process: %v", err)
	}
	for _, port := range []uint16{2, 63, 64, 4000, 65535} {
		f.Address(here).Set(port)
	}
	f.Address(there).Set(7)
	f.Address(there).Clear(7)
	f.Address(here).Clear(64)
	p := f.Add(here, there, 42, 7, 9, 77)
	p.Next[0].Store(1 << 60)
	p.Used.Store(88)
	f.Add(here, there, 43, 1, 3, 0) // another generation
	f.Add(there, there, 1, 0, 0, 0) // nothing was received
	f.Remove(f.Add(there, here, 44, 0, 1, 0))
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
		all := peersOf(g)
		if len(all) != 2 {
			t.Errorf("%d peers", len(all))
		}
		q := all[peerName{here, there, 42}]
		if q == nil || q.Next[0].Load() != 1<<60 || q.Next[7].Load() != 9 || q.Next[1].Load() != 0 || q.Taken.Load() != 77 || q.Used.Load() != 88 {
			t.Fatal("the peer is another")
		}
		for range 3 {
			g.Add(there, here, 5, 0, 5, 0) // takes a slot of its own
		}
		if q.Next[0].Load() != 1<<60 {
			t.Error("slots overlap")
		}
		if g.peerSlots != 5 {
			t.Errorf("%d slots: freed ones are not used again", g.peerSlots)
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
		f.Add(here, there, 1, 0, 1, 0)
		f.Close()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, spoil(b), 0o600); err != nil {
			t.Fatal(err)
		}
		f = opened(t, path)
		if ports := f.Ports(); len(ports) != 0 || len(peersOf(f)) != 0 {
			t.Errorf("%s: ports %v", name, ports)
		}
		f.Close()
	}
}

// A file of the version before, which had fewer peers, is taken over.
func TestVersionBeforeIsTakenOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	f.Address(here).Set(4000)
	f.Add(here, there, 42, 3, 7, 0)
	f.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.NativeEndian.PutUint64(b, magicOne)
	if err := os.WriteFile(path, b[:sizeOne], 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f = opened(t, path)
		p := peersOf(f)[peerName{here, there, 42}]
		if p == nil || p.Next[3].Load() != 7 || len(f.Ports()[here]) != 1 {
			t.Fatal("nothing was taken over")
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
		if f.Add(here, a, 1, 0, 0, 0) == nil {
			t.Fatalf("no slot for %v", a)
		}
		a = a.Next()
	}
	if f.Add(here, a, 1, 0, 0, 0) != nil {
		t.Error("a peer too many")
	}
}
