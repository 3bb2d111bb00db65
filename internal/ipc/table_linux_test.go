//go:build !live

package ipc

import (
	"errors"
	"math"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/wire"
)

func newTable(t *testing.T) (*Table, *os.File) {
	t.Helper()
	w, f, err := NewTable(7)
	must(t, err)
	t.Cleanup(func() { _ = w.Close(); _ = f.Close() })
	return w, f
}

func openTable(t *testing.T, f *os.File) *Table {
	t.Helper()
	r, err := OpenTable(f)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestApplicationsReadWhatTheDaemonWrites(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	r := openTable(t, f)
	if r.Generation() != 7 {
		t.Errorf("generation %d", r.Generation())
	}
	ip := netip.MustParseAddr
	for i, c := range []struct{ local, remote netip.Addr }{
		{ip("192.0.2.1"), ip("192.0.2.2")},
		{ip("2001:db8::1"), ip("2001:db8::2")},
		{ip("fe80::1%eth0"), ip("fe80::2%eth0")},
		{ip("2001:db8::1"), ip("fe80::2%eth0")},
		{ip("fe80::1%eth0"), ip("2001:db8::2")},
		{ip("fe80::1%interface-name16"), ip("fe80::2%interface-name16")},
		{ip("::ffff:192.0.2.1"), ip("::ffff:192.0.2.2")},
	} {
		slot := []int{0, 1, 2, 1000, MaxPeers - 3, MaxPeers - 2, MaxPeers - 1}[i]
		if _, _, ok := r.Peer(slot); ok {
			t.Errorf("slot %d is used before it is", slot)
		}
		must(t, w.SetPeer(slot, c.local, c.remote))
		if l, m, ok := r.Peer(slot); l != c.local || m != c.remote || !ok {
			t.Errorf("slot %d: %v and %v, want %v and %v", slot, l, m, c.local, c.remote)
		}
	}
	for _, slot := range []int{-1, MaxPeers, math.MaxInt} {
		if _, _, ok := r.Peer(slot); ok {
			t.Errorf("slot %d exists", slot)
		}
		if !panics(func() { _ = w.SetPeer(slot, ip("192.0.2.1"), ip("192.0.2.2")) }) {
			t.Errorf("slot %d can be written", slot)
		}
	}
	for _, c := range []struct{ local, remote netip.Addr }{
		{ip("fe80::1"), ip("fe80::2").WithZone(strings.Repeat("z", zoneMax+1))},
		{ip("fe80::1%eth0"), ip("fe80::2%eth1")},
	} {
		if err := w.SetPeer(5, c.local, c.remote); !errors.Is(err, errZone) {
			t.Errorf("%v and %v: %v", c.local, c.remote, err)
		}
	}
}

// A slot has the next generation when its peer, of which applications were told, has ended,
// whatever else is said of the peer.
func TestSlotsHaveGenerations(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	r := openTable(t, f)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	is := func(what string, want uint32) {
		t.Helper()
		if got := r.Slot(9); got != want {
			t.Errorf("%s: generation %d, want %d", what, got, want)
		}
	}
	is("empty", 0)
	for n := range uint32(3) {
		must(t, w.SetPeer(9, a, b))
		w.ClearPeer(9)
		is("of a peer that nobody was told of", 0)
		_ = w.SetPeer(9, b, a)
		w.SetDown(9, true, n == 1)
		is("used", n+1)
		if !r.Down(9) || r.Barred(9) != (n == 1) {
			t.Error("the generation hides the state")
		}
		w.RetirePeer(9)
		is("retired", 0)
		if _, _, ok := r.Peer(9); ok {
			t.Error("the slot is used")
		}
	}
	next, g := newTable(t)
	next.Succeed(1, w.Slots())
	_ = next.SetPeer(9, a, b)
	must(t, r.Replace(g))
	is("of a successor", 4)
	next.slots[9] = 1<<slotBits - 1
	next.RetirePeer(9)
	_ = next.SetPeer(9, a, b)
	is("after the highest generation", 1)
	if r.Slot(-1) != 0 || r.Slot(MaxPeers) != 0 {
		t.Error("a slot that is not there has a generation")
	}
}

func TestCongestionMapsAreReadBitByBit(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	r := openTable(t, f)
	ports := []uint16{0, 1, 7, 8, 63, 64, 4000, 65534, 65535}
	for _, slot := range []int{0, 1, MaxPeers - 1} {
		before := r.Maps()
		var m wire.CongestionMap
		for _, p := range ports {
			m.Set(p)
		}
		w.SetMap(slot, &m)
		n := 0
		for p := range 1 << 16 {
			got, want := r.Congested(slot, uint16(p)), m.Congested(uint16(p))
			if got != want {
				t.Errorf("slot %d, port %d: %v, want %v", slot, p, got, want)
			}
			if got {
				n++
			}
		}
		if n != len(ports) {
			t.Errorf("%d ports are congested", n)
		}
		w.SetMap(slot, new(wire.CongestionMap))
		for _, p := range ports {
			if r.Congested(slot, p) {
				t.Errorf("slot %d, port %d: still congested", slot, p)
			}
		}
		if r.Maps() != before+2 {
			t.Errorf("%d maps, want %d", r.Maps(), before+2)
		}
	}
}

// The table is the one thing that applications share. None must be able to
// write to it, whatever it does with the descriptor.
func TestTheTableCannotBeWritten(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	for name, f := range map[string]*os.File{"the file": f, "another opening": reopen(t, f)} {
		fd := int(f.Fd())
		if _, err := unix.Mmap(fd, 0, tableSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != unix.EPERM {
			t.Errorf("%s: mapped for writing: %v", name, err)
		}
		if _, err := unix.Pwrite(fd, []byte{1}, 0); err != unix.EPERM {
			t.Errorf("%s: written: %v", name, err)
		}
		if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, pageSize); err != unix.EPERM {
			t.Errorf("%s: a hole: %v", name, err)
		}
		for _, n := range []int64{0, tableSize + pageSize} {
			if err := unix.Ftruncate(fd, n); err != unix.EPERM {
				t.Errorf("%s: truncated to %d: %v", name, n, err)
			}
		}
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != unix.EPERM {
			t.Errorf("%s: another seal: %v", name, err)
		}
		mem, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ, unix.MAP_SHARED)
		must(t, err)
		if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != unix.EACCES {
			t.Errorf("%s: made writable: %v", name, err)
		}
		if err := unix.Madvise(mem, unix.MADV_REMOVE); err == nil {
			t.Errorf("%s: pages removed", name)
		}
		must(t, unix.Munmap(mem))
	}
	w.SetMap(0, &wire.CongestionMap{1}) // the daemon still can
	if !w.Congested(0, 0) || w.Generation() != 7 {
		t.Error("the daemon's own mapping is changed")
	}
}

func TestTablesThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, pageSize, tableSize - pageSize, tableSize, tableSize + pageSize} {
		f, err := memfd("rds-test", size)
		must(t, err)
		if _, err := OpenTable(f); !errors.Is(err, errLayout) {
			t.Errorf("%d zeros: %v", size, err)
		}
		_ = f.Close()
	}
}

func TestAnUntouchedTableCostsNothing(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	used := func() int64 {
		info, err := f.Stat()
		must(t, err)
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	before := used()
	for slot := range 100 { // maps without a bit are what most peers have
		w.SetMap(slot, new(wire.CongestionMap))
	}
	if n := used() - before; n != 0 || w.Maps() != 100 {
		t.Errorf("%d maps of zeros take %d bytes", w.Maps(), n)
	}
	w.SetMap(0, &wire.CongestionMap{1})
	if used() == before {
		t.Error("a map with a bit takes no memory: nothing was measured")
	}
}

// Whether a peer is down and whether it is barred are told apart, and neither of a slot
// that nobody has written.
func TestApplicationsReadWhoIsBarred(t *testing.T) {
	t.Parallel()
	w, f := newTable(t)
	r := openTable(t, f)
	w.SetDown(3, true, true)
	if r.Down(3) || r.Barred(3) {
		t.Error("of a slot that is not used")
	}
	must(t, w.SetPeer(3, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")))
	for _, c := range []struct{ down, barred bool }{{true, false}, {true, true}, {false, true}, {false, false}} {
		w.SetDown(3, c.down, c.barred)
		if r.Down(3) != c.down || r.Barred(3) != c.barred {
			t.Errorf("down %v, barred %v, want %v", r.Down(3), r.Barred(3), c)
		}
		if _, _, ok := r.Peer(3); !ok {
			t.Error("the slot is not used any more")
		}
	}
	if before := r.Bars(); before != 0 {
		t.Errorf("%d changes", before)
	}
	if w.CountBar(); r.Bars() != 1 {
		t.Errorf("%d changes, want 1", r.Bars())
	}
}
