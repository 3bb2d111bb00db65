package statefile

import (
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
	f, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// left is the owners' users by port.
func left(f *File) map[netip.AddrPort]uint32 {
	all := make(map[netip.AddrPort]uint32)
	for a, o := range f.Left() {
		all[a] = 0
		if o != nil {
			all[a] = o.UID
		}
	}
	return all
}

func ports(uid uint32, list ...uint16) map[netip.AddrPort]uint32 {
	all := make(map[netip.AddrPort]uint32)
	for _, p := range list {
		all[netip.AddrPortFrom(here, p)] = uid
	}
	return all
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func add(f *File, generation uint32, path int, next, taken uint64) *Peer {
	p := &Peer{Local: here, Remote: there, Generation: generation}
	p.Take(path, next, taken)
	f.Add(p)
	return p
}

func user(f *File, uid uint32) *Owner {
	o := &Owner{UID: uid, Process: ProcessOf(os.Getpid()), Place: 5, Secret: [16]byte{byte(uid), 9}}
	f.Own(o)
	return o
}

// killed copies the file as SIGKILL leaves it.
func killed(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "killed")
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func keyOf(port uint16) netip.AddrPort { return netip.AddrPortFrom(here, port) }
