package ebpf

import (
	"os"
	"testing"
)

func newTestWakeups(t testing.TB, pids ...int) *Wakeups {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to trace the scheduler")
	}
	w, err := NewWakeups(pids)
	must(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func report(t testing.TB, w *Wakeups) WakeupsReport {
	t.Helper()
	r, err := w.Report()
	must(t, err)
	if r.LostThreads != 0 || r.LostWakes != 0 {
		t.Errorf("no room for %d threads and %d ways of waking", r.LostThreads, r.LostWakes)
	}
	return r
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
