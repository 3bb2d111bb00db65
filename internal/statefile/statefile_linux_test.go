//go:build !live

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

// What one process has stored its successor finds, without a word of farewell.
func TestSuccessorFindsWhatWasStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	if _, err := Open(path, nil); !errors.Is(err, errInUse) {
		t.Errorf("a second process: %v", err)
	}
	o := user(f, 7)
	for _, port := range []uint16{2, 63, 64, 4000, 65535} {
		f.Hold(here, port, o)
	}
	f.Hold(there, 7, o)
	f.Free(there, 7)
	f.Free(here, 64)
	p := add(f, 42, 7, 9, 77)
	p.Take(0, 1<<60, 1)
	p.Use(88)
	add(f, 43, 1, 3, 0) // another generation
	add(f, 1, 0, 0, 0)  // nothing was received
	f.Remove(add(f, 44, 0, 1, 0))
	f.Reserve(1 << 61)
	copied := killed(t, path)
	f.Close()
	for _, path := range []string{path, copied} {
		g := opened(t, path)
		want(t, "ports", left(g), ports(7, 2, 63, 4000, 65535))
		got := g.Left()[netip.AddrPortFrom(here, 63)]
		want(t, "owner", [...]any{got.UID, got.Process, got.Place, got.Secret}, [...]any{o.UID, o.Process, o.Place, o.Secret})
		want(t, "number", g.Number(), 1<<61)
		all := g.Peers()
		if len(all) != 2 {
			t.Fatalf("%d peers", len(all))
		}
		q := all[0]
		if q.Local != here || q.Remote != there || q.Generation != 42 || q.Next[0].Load() != 1<<60 || q.Next[7].Load() != 9 || q.Next[1].Load() != 0 || q.Taken.Load() != 78 || q.Used.Load() != 88 {
			t.Fatalf("the peer is another: %+v", q)
		}
		for range 3 {
			add(g, 5, 0, 5, 0) // takes a slot of its own
		}
		want(t, "slots: freed ones are used again", g.peerSlots.used, 5)
		h := opened(t, killed(t, path))
		want(t, "a slot of its own", h.Peers()[0].Next[0].Load(), 1<<60)
		h.Close()
		g.Close()
	}
}

// A port has the owner who has bound it last; an owner is in the file as long as one of its
// ports is.
func TestOwnersComeAndGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	gone := user(f, 5)
	f.Hold(here, 9, gone)
	f.Disown(gone) // its port is kept, as when the daemon ends
	f.Close()
	f = opened(t, path)
	defer f.Close()
	want(t, "ports", left(f), ports(5, 9))
	next := user(f, 6)
	f.Hold(here, 9, next)
	f.Hold(here, 10, nil)
	want(t, "slots of owners", f.owners.used-len(f.owners.free), 2)
	g := opened(t, killed(t, path))
	defer g.Close()
	all := ports(6, 9)
	all[netip.AddrPortFrom(here, 10)] = uint32(os.Geteuid())
	want(t, "ports", left(g), all)
	f.Free(here, 9)
	f.Disown(next)
	want(t, "slots of owners", f.owners.used-len(f.owners.free), 1)
}

// What another boot, another layout or somebody's scissors have left counts for nothing.
func TestForeignContentsAreDiscarded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b []byte) []byte{
		"another boot":   func(b []byte) []byte { b[offBoot]++; return b },
		"another layout": func(b []byte) []byte { b[0] += 7; return b },
		"cut":            func(b []byte) []byte { return b[:5000] },
		"empty":          func([]byte) []byte { return nil },
	} {
		path := filepath.Join(t.TempDir(), "state")
		f := opened(t, path)
		f.Hold(here, 4000, nil)
		add(f, 1, 0, 1, 0)
		f.Close()
		rewrite(t, path, spoil)
		f = opened(t, path)
		if len(f.Left()) != 0 || len(f.Peers()) != 0 {
			t.Errorf("%s: ports %v", name, f.Left())
		}
		f.Close()
	}
}

func rewrite(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A daemon that knows no owners finds its magic, ports and peers, or accepts ours. What it has
// left is taken over with ports that have no owners, whatever the owners' tables say.
func TestDaemonsWithoutOwners(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]func(b []byte) []byte{
		"with our tables": func(b []byte) []byte { return b },
		"its own file":    func(b []byte) []byte { clear(b[offMark:offNames]); clear(b[offOwners:]); return b },
	} {
		path := filepath.Join(t.TempDir(), "state")
		f := opened(t, path)
		f.Hold(here, 4000, user(f, 7))
		add(f, 42, 3, 7, 0)
		f.Close()
		rewrite(t, path, func(b []byte) []byte { // what it does when it opens the file, and binds two ports
			if m := binary.NativeEndian.Uint64(b); m != magic-1 {
				t.Errorf("magic %x", m)
			}
			binary.NativeEndian.PutUint64(b, magic)
			b[offBitmaps+4001/8] |= 1 << (4001 % 8)
			return without(b)
		})
		for range 2 {
			f = opened(t, path)
			want(t, name, left(f), ports(0, 4000, 4001))
			if p := f.Peers(); len(p) != 1 || p[0].Next[3].Load() != 7 {
				t.Fatal("nothing was taken over")
			}
			f.Hold(here, 4000, user(f, 8))
			g := opened(t, killed(t, path))
			all := ports(8, 4000)
			if g.Close(); !reflect.DeepEqual(left(g), all) {
				t.Errorf("%s: then %v", name, left(g)) // what nobody has bound again has no bit any more
			}
			f.Free(here, 4000)
			f.Close()
			rewrite(t, path, func(b []byte) []byte {
				binary.NativeEndian.PutUint64(b, magic)
				b[offBitmaps+4000/8] |= 1 << (4000 % 8)
				b[offBitmaps+4001/8] |= 1 << (4001 % 8)
				return b
			})
		}
	}
}

// A file of the layout with fewer peers is taken over.
func TestFewerPeersAreTakenOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	f.Hold(here, 4000, nil)
	add(f, 42, 3, 7, 0)
	f.Close()
	rewrite(t, path, func(b []byte) []byte { clear(b[offMark:offNames]); return b[:sizeOne] })
	for i := range 2 {
		f = opened(t, path)
		if p := f.Peers(); len(p) != 1 || p[0].Next[3].Load() != 7 || i == 0 && len(f.Left()) != 1 {
			t.Fatal("nothing was taken over")
		}
		f.Close()
	}
}

// A process that takes the file over by its descriptor stores nothing before it begins: until
// then the one before can go on, with all that it knew, whatever the other one has bound, freed and
// attached. When it begins the file says what it knows.
func TestAdoptedFile(t *testing.T) {
	t.Parallel()
	for _, begins := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "state")
		f := opened(t, path)
		a, b := user(f, 7), user(f, 8)
		f.Hold(here, 4000, a)
		f.Hold(here, 5000, b)
		f.Hold(there, 4001, b)
		f.HoldService(9, a)
		before := killed(t, path)
		passed, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Adopt(passed, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		for port, o := range map[uint16]*Owner{4000: user(g, 7), 5000: user(g, 8), 6000: user(g, 9)} { // its sessions
			g.Hold(here, port, o)
		}
		g.Free(there, 4001)
		g.FreeService(g.Services()[9])
		g.HoldService(10, user(g, 10))
		g.Reserve(77)
		all := ports(7, 4000)
		if begins {
			g.Begin()
			all[keyOf(6000)] = 9
		} else {
			if x, y := contents(t, before), contents(t, path); !reflect.DeepEqual(x, y) {
				t.Error("something was stored")
			}
			f.Hold(here, 4002, a)
			all[keyOf(4002)], all[netip.AddrPortFrom(there, 4001)] = 7, 8
		}
		all[keyOf(5000)] = 8
		h := opened(t, killed(t, path))
		want(t, "ports", left(h), all)
		services := 0
		for id := range h.Services() {
			services += int(id)
		}
		want(t, "services and number", [...]uint64{uint64(services), h.Number()}, map[bool][2]uint64{true: {10, 77}, false: {9, 0}}[begins])
		h.Close()
		g.Close()
	}
}

// Nobody adopts a file that was cut meanwhile.
func TestCutFileIsNotAdopted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	defer f.Close()
	passed, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = os.Truncate(path, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Adopt(passed, nil); !errors.Is(err, errLost) {
		t.Error(err)
	}
	if b := contents(t, path); len(b) != 100 {
		t.Errorf("the file has %d bytes now", len(b))
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A daemon without owners takes a file that it is given up for, and its successor takes the file without owners; if
// that daemon does not go on with the file the owners are those of before.
func TestFileForADaemonWithoutOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	defer f.Close()
	f.Hold(here, 4000, user(f, 7))
	if err := Forego(f.File()); err != nil {
		t.Fatal(err)
	}
	given := killed(t, path)
	if b := contents(t, given); binary.NativeEndian.Uint64(b) != magic {
		t.Error("it would refuse the file")
	}
	f.Keep()
	g := opened(t, killed(t, path))
	want(t, "kept", left(g), ports(7, 4000))
	g.Close()
	old, err := os.OpenFile(given, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err = Adopt(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "adopted", left(g), ports(0, 4000))
	g.Hold(here, 4000, user(g, 8))
	g.Begin()
	h := opened(t, killed(t, given))
	want(t, "begun", left(h), ports(8, 4000))
	h.Close()
	g.Close()
}

// Slots are bounded; who finds none goes without.
func TestSlotsAreBounded(t *testing.T) {
	t.Parallel()
	f := opened(t, filepath.Join(t.TempDir(), "state"))
	defer f.Close()
	a := here
	for range maxAddresses + 1 {
		f.Hold(a, 5, nil)
		a = a.Next()
	}
	want(t, "ports", len(f.ports), maxAddresses)
	for range maxPeers {
		if add(f, 1, 0, 0, 0).file == nil {
			t.Fatal("no slot")
		}
	}
	if add(f, 1, 0, 0, 0).file != nil {
		t.Error("a peer too many")
	}
	for range maxOwners - 1 { // this process is one
		if user(f, 1).slot < 0 {
			t.Fatal("no slot")
		}
	}
	o := user(f, 1)
	f.Hold(here, 77, o)
	want(t, "ports of an owner too many", [...]int{o.slot, len(f.ports)}, [...]int{-1, maxAddresses})
}

// A file that somebody cuts while it is used is used no more: the process goes on without.
func TestCutFile(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(f *File, p *Peer){
		"received":     func(_ *File, p *Peer) { p.Take(0, 100, 1) },
		"used":         func(_ *File, p *Peer) { p.Use(1) },
		"another peer": func(f *File, _ *Peer) { add(f, 9, 0, 1, 0) },
		"gone":         func(f *File, p *Peer) { f.Remove(p) },
		"bound":        func(f *File, _ *Peer) { f.Hold(here, 1, nil) },
		"closed":       func(f *File, _ *Peer) { f.Free(here, 4000) },
		"attached":     func(f *File, _ *Peer) { user(f, 1) },
		"numbers":      func(f *File, _ *Peer) { f.Reserve(1) },
		"takeover":     func(f *File, _ *Peer) { f.Keep() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state")
			told := make(chan error, 1)
			f, err := Open(path, func(err error) { told <- err })
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.Hold(here, 4000, user(f, 7))
			p := add(f, 42, 0, 9, 1)
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			store(f, p)
			if err := <-told; !errors.Is(err, errLost) {
				t.Error(err)
			}
			if f.File() != nil {
				t.Error("the file is passed on")
			}
			p.Take(1, 101, 1) // nothing faults any more
			f.Hold(here, 2, nil)
			f.Hold(here, 3, user(f, 8))
			add(f, 10, 0, 1, 0)
			f.Free(here, 4000)
			want(t, "what the process knows", p.Next[1].Load(), 101)
		})
	}
}

// Service ids have owners as ports have; who has an id last has it.
func TestServicesHaveOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := opened(t, path)
	o, next := user(f, 7), user(f, 8)
	first := f.HoldService(1<<63+5, o)
	f.HoldService(6, nil)
	second := f.HoldService(1<<63+5, next)
	f.FreeService(first) // late: it is another one's
	f.FreeService(f.HoldService(7, o))
	f.Disown(o)
	f.Close()
	f = opened(t, path)
	defer f.Close()
	all := make(map[uint64]uint32)
	for id, h := range f.Services() {
		all[id] = h.Owner().UID
	}
	want(t, "services", all, map[uint64]uint32{1<<63 + 5: 8, 6: uint32(os.Geteuid())})
	want(t, "owners", f.owners.used-len(f.owners.free), 2)
	f.FreeService(f.Services()[second.id])
	want(t, "owners", f.owners.used-len(f.owners.free), 1)
	for i := range uint64(maxServicesOfUser - 1) { // it has one
		if f.HoldService(100+i, nil) == nil {
			t.Fatal("no slot")
		}
	}
	if f.HoldService(99, nil) != nil {
		t.Error("a service id too many of a user")
	}
	for uid := range uint32(3) {
		o := user(f, 100+uid)
		for i := range uint64(maxServicesOfUser) {
			if h := f.HoldService(10000*uint64(uid+1)+i, o); h == nil {
				t.Fatal("no slot")
			}
		}
	}
	if f.HoldService(99, user(f, 200)) != nil {
		t.Error("a service id too many")
	}
}
