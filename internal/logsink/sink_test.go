package logsink

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second // of a bubble

func lost(n uint64) []byte { return fmt.Appendf(nil, "%d lines lost\n", n) }

// file is a file whose reader may have stopped or gone.
type file struct {
	mu    sync.Mutex // guards the fields below
	text  bytes.Buffer
	gone  bool
	stall chan struct{} // writes wait until it is closed
}

func newFile() *file { return &file{stall: make(chan struct{})} }

func (f *file) Write(b []byte) (int, error) {
	<-f.stall
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return 0, errors.New("gone")
	}
	return f.text.Write(b)
}

func (f *file) set(gone bool) {
	f.mu.Lock()
	f.gone = gone
	f.mu.Unlock()
}

func (f *file) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

func line(s *Sink, format string, args ...any) {
	_, _ = s.Write(fmt.Appendf(nil, format+"\n", args...))
}

func TestLinesAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFile()
		close(f.stall)
		s := New(f, lost)
		var want strings.Builder
		for i := range 20_000 {
			line(s, "line %d", i)
			fmt.Fprintf(&want, "line %d\n", i)
		}
		s.Close(patience)
		if got := f.String(); got != want.String() || s.Dropped() != 0 {
			t.Errorf("%d bytes written, want %d; %d lines lost", len(got), want.Len(), s.Dropped())
		}
		line(s, "too late")
		if s.Dropped() != 1 {
			t.Errorf("%d lines lost after the end", s.Dropped())
		}
	})
}

// Who logs does not wait for a file that takes nothing. The first lines are kept, the
// others counted, and the log says so when the file takes lines again.
func TestStalledFileHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFile()
		s := New(f, lost)
		const count = 100_000
		text := strings.Repeat("x", 80)
		line(s, "first")
		synctest.Wait() // writes it
		for i := range count {
			line(s, "%06d %s", i, text)
		}
		kept := room / 88
		if d := s.Dropped(); d < count-uint64(kept)-1 || d > count-uint64(kept)+1 {
			t.Errorf("%d lines lost, want about %d", d, count-kept)
		}
		dropped := s.Dropped()
		close(f.stall)
		said := fmt.Sprintf("%d lines lost\n", dropped)
		synctest.Wait()
		if !strings.HasSuffix(f.String(), said) {
			t.Errorf("the file takes lines again, and does not say %q", said)
		}
		line(s, "and on")
		s.Close(patience)
		got := f.String()
		if !strings.HasPrefix(got, "first\n000000 x") || !strings.HasSuffix(got, said+"and on\n") || strings.Count(got, "lost") != 1 {
			t.Errorf("%.100q ... %q", got, got[len(got)-100:])
		}
		if n := strings.Count(got, "\n"); n != count-int(dropped)+3 {
			t.Errorf("%d lines, want %d", n, count-int(dropped)+3)
		}
	})
}

// The end does not wait for a file that takes nothing longer than it is told to.
func TestStalledFileDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFile()
		s := New(f, lost)
		line(s, "stuck")
		synctest.Wait() // writes it
		begun := time.Now()
		s.Close(patience)
		if d := time.Since(begun); d != patience {
			t.Errorf("Close takes %v, want %v", d, patience)
		}
		close(f.stall)
		<-s.done
	})
}

// Lines that a file refuses are counted, without a busy loop, and told when it takes lines
// again.
func TestRefusedLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFile()
		f.set(true)
		close(f.stall)
		s := New(f, lost)
		for i := range uint64(3) {
			line(s, "refused")
			synctest.Wait()
			if n := s.Dropped(); n != i+1 {
				t.Errorf("%d lines lost, want %d", n, i+1)
			}
		}
		f.set(false)
		line(s, "taken")
		s.Close(patience)
		if got := f.String(); got != "taken\n3 lines lost\n" || s.Dropped() != 3 {
			t.Errorf("%q, %d lost", got, s.Dropped())
		}
	})
}

func TestManyLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFile()
		close(f.stall)
		s := New(f, lost)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 1000 {
					line(s, "%d %d", i, j)
				}
			})
		}
		wg.Wait()
		s.Close(patience)
		if n := strings.Count(f.String(), "\n"); n != 8000 {
			t.Errorf("%d lines, %d lost", n, s.Dropped())
		}
	})
}
