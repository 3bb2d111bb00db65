//go:build !live

package ipc

import (
	"errors"
	"math"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

var smallLayout = Layout{Submissions: 64, Completions: 128, Sockets: 16, Data: 64 << 10, Send: ChunkSize, Receive: 2 * ChunkSize, Memory: 4 * ChunkSize}

func newSegment(t *testing.T, l Layout) (*Segment, *os.File) {
	t.Helper()
	s, f, err := NewSegment(l)
	must(t, err)
	t.Cleanup(func() { _ = s.Close(); _ = f.Close() })
	return s, f
}

// reopen opens the memory behind f once more, as whoever has f can.
func reopen(t *testing.T, f *os.File) *os.File {
	t.Helper()
	again, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestBothSidesSeeTheSameSegment(t *testing.T) {
	t.Parallel()
	d, f := newSegment(t, smallLayout)
	a, err := OpenSegment(f)
	must(t, err)
	defer a.Close()
	if a.Layout != smallLayout {
		t.Errorf("layout %+v, want %+v", a.Layout, smallLayout)
	}

	sub, subd := a.Submit(), d.Submitted()
	sub.Put(Entry{3: 17})
	sub.Publish()
	if n, err := subd.Ready(); n != 1 || err != nil {
		t.Fatalf("submitted: %d, %v", n, err)
	}
	if e := subd.Peek(0); e.Token() != 17 {
		t.Errorf("submitted %#x", e)
	}
	com, comd := d.Complete(), a.Completed()
	com.Put(Entry{3: 18})
	com.Publish()
	if n, err := comd.Ready(); n != 1 || err != nil {
		t.Fatalf("completed: %d, %v", n, err)
	}
	if e := comd.Peek(0); e.Token() != 18 {
		t.Errorf("completed %#x", e)
	}

	flags := func(s *Segment) []Flag {
		c := s.Cell(smallLayout.Sockets - 1)
		return []Flag{s.DaemonSleeps(), s.ApplicationSleeps(), s.WantSpace(), s.WantMaps(), s.WantCompletions(), s.WantReturns(), c.Tell, c.WantRoom}
	}
	mine, theirs := flags(d), flags(a)
	for i := range mine {
		mine[i].Set()
		for k := range theirs { // no two are the same
			if theirs[k].IsSet() != (k == i) {
				t.Errorf("flag %d is set, flag %d reads %v", i, k, theirs[k].IsSet())
			}
		}
		if !theirs[i].Take() || mine[i].Take() || mine[i].IsSet() {
			t.Errorf("flag %d: not taken once", i)
		}
	}

	for i, area := range [][2][]byte{{d.DataArea(), a.DataArea()}, {d.SendArea(), a.SendArea()}, {d.ReceiveArea(), a.ReceiveArea()}, {d.MemoryArea(), a.MemoryArea()}} {
		area[0][0], area[0][len(area[0])-1] = byte(i+1), byte(i+11)
		if area[1][0] != byte(i+1) || area[1][len(area[1])-1] != byte(i+11) {
			t.Errorf("area %d differs", i)
		}
	}
	for i, n := range []int{len(d.DataArea()), len(d.SendArea()), len(d.ReceiveArea()), len(d.MemoryArea())} {
		if want := []int{smallLayout.Data, smallLayout.Send, smallLayout.Receive, smallLayout.Memory}[i]; n != want {
			t.Errorf("area %d has %d bytes, want %d", i, n, want)
		}
	}

	dc, ac := d.Cell(3), a.Cell(3)
	dc.FreedBytes.Store(1)
	dc.FreedMessages.Store(2)
	ac.TakenBytes.Store(3)
	ac.TakenMessages.Store(4)
	if ac.FreedBytes.Load() != 1 || ac.FreedMessages.Load() != 2 || dc.TakenBytes.Load() != 3 || dc.TakenMessages.Load() != 4 {
		t.Error("the cell differs")
	}
	dc.Tell.Set()
	ac.WantRoom.Set()
	dc.Reset()
	if ac.FreedBytes.Load()+ac.FreedMessages.Load()+ac.TakenBytes.Load()+ac.TakenMessages.Load() != 0 || ac.Tell.IsSet() || ac.WantRoom.IsSet() {
		t.Error("the cell is not as new")
	}
}

func TestOnlyCellsThatExistCanBeHad(t *testing.T) {
	t.Parallel()
	s, _ := newSegment(t, smallLayout)
	for _, i := range []int{-1, smallLayout.Sockets, 1 << 20} {
		if !panics(func() { s.Cell(i) }) {
			t.Errorf("Cell(%d) exists", i)
		}
	}
}

func TestASegmentKeepsItsSizeAndItsSeals(t *testing.T) {
	t.Parallel()
	s, f := newSegment(t, smallLayout)
	for name, f := range map[string]*os.File{"the file": f, "another opening": reopen(t, f)} {
		for _, n := range []int64{0, int64(s.Size()) - pageSize, int64(s.Size()) + pageSize} {
			if err := f.Truncate(n); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s: truncated to %d of %d: %v", name, n, s.Size(), err)
			}
		}
		for _, seal := range []int{unix.F_SEAL_WRITE, unix.F_SEAL_FUTURE_WRITE, unix.F_SEAL_SEAL} {
			if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seal); err != unix.EPERM {
				t.Errorf("%s: seal %#x: %v", name, seal, err)
			}
		}
	}
	s.ReceiveArea()[0] = 1
	s.Discard()
	if s.ReceiveArea()[0] != 0 || s.word(offMagic).Load() != 0 {
		t.Error("discarded memory is still there")
	}
}

func TestAClosedSegmentCanBeClosedAgain(t *testing.T) {
	t.Parallel()
	s, _ := newSegment(t, smallLayout)
	for range 2 {
		must(t, s.Close())
	}
}

func TestImpossibleLayoutsAreRefused(t *testing.T) {
	t.Parallel()
	must(t, smallLayout.validate())
	beyond := 1 << 30
	beyond *= 2 // negative where int has 32 bits
	for _, c := range []struct {
		name   string
		change func(*Layout)
	}{
		{"no submissions", func(l *Layout) { l.Submissions = 0 }},
		{"submissions not a power of two", func(l *Layout) { l.Submissions = 65 }},
		{"too many submissions", func(l *Layout) { l.Submissions = 1 << 21 }},
		{"negative completions", func(l *Layout) { l.Completions = -64 }},
		{"too many completions", func(l *Layout) { l.Completions = 1 << 21 }},
		{"no sockets", func(l *Layout) { l.Sockets = 0 }},
		{"too many sockets", func(l *Layout) { l.Sockets = 1<<20 + 1 }},
		{"little data", func(l *Layout) { l.Data = 32 << 10 }},
		{"much data", func(l *Layout) { l.Data = beyond }},
		{"an odd send arena", func(l *Layout) { l.Send = 3 << 20 }},
		{"a small send arena", func(l *Layout) { l.Send = ChunkSize / 2 }},
		{"a large receive arena", func(l *Layout) { l.Receive = beyond }},
		{"an empty receive arena", func(l *Layout) { l.Receive = 0 }},
	} {
		l := smallLayout
		c.change(&l)
		if err := l.validate(); !errors.Is(err, errLayout) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, _, err := NewSegment(l); !errors.Is(err, errLayout) {
			t.Errorf("%s: a segment: %v", c.name, err)
		}
	}
}

func TestTheLargestSegmentIsWithinBounds(t *testing.T) {
	t.Parallel()
	l := Layout{Submissions: 1 << 20, Completions: 1 << 20, Sockets: 1 << 20, Data: 1 << 30, Send: 1 << 30, Receive: 1 << 30, Memory: 1 << 30}
	err := l.validate()
	if maxSegment > int64(math.MaxInt) { // int has 32 bits
		if !errors.Is(err, errLayout) {
			t.Errorf("%v, want %v", err, errLayout)
		}
		return
	}
	if err != nil || int64(l.Size()) != maxSegment {
		t.Errorf("%v, %d bytes, want %d", err, l.Size(), int64(maxSegment))
	}
}

func TestSegmentsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	small := int64(smallLayout.Size())
	for _, c := range []struct {
		name   string
		size   int64
		change func(s *Segment)
	}{
		{"empty", 0, nil},
		{"less than a page", pageSize - 1, nil},
		{"zeros", small, nil},
		{"beyond all bounds", maxSegment + pageSize, nil},
		{"another magic", small, func(s *Segment) { s.word(offMagic).Store(magic ^ 1<<32) }},
		{"another version", small, func(s *Segment) { s.word(offMagic).Store(magic + 1) }},
		{"a page too short", small - pageSize, func(*Segment) {}},
		{"a page too long", small + pageSize, func(*Segment) {}},
		{"a number too large", small, func(s *Segment) { s.word(offLayout).Store(1 << 40) }},
		{"a negative number", small, func(s *Segment) { s.word(offLayout + 8).Store(1<<64 - 64) }},
		{"a layout that is refused", small, func(s *Segment) { s.word(offLayout).Store(63) }},
		{"a layout that needs more", small, func(s *Segment) { s.word(offLayout + 40).Store(4 << 20) }},
	} {
		if c.size > math.MaxInt {
			continue // no file of this process's is that large
		}
		f, err := memfd("rds-test", int(c.size))
		must(t, err)
		if c.change != nil {
			s := &Segment{Layout: smallLayout}
			if s.mem, err = mmap(f, int(c.size), true); err != nil {
				t.Fatal(err)
			}
			s.format()
			c.change(s)
			must(t, s.Close())
		}
		if s, err := OpenSegment(f); !errors.Is(err, errLayout) {
			t.Errorf("%s: %v", c.name, err)
			if err == nil {
				_ = s.Close()
			}
		}
		_ = f.Close()
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	if _, err := OpenSegment(r); err == nil {
		t.Error("a pipe is a segment")
	}
	if _, err := OpenTable(r); err == nil {
		t.Error("a pipe is a table")
	}
}
