//go:build live

package ebpf

import (
	"errors"
	"os"
	"strings"
	"testing"

	cilium "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

func TestTimersWakeByInterrupt(t *testing.T) {
	t.Parallel()
	w := newTestWakeups(t, os.Getpid())
	for range 20 {
		if err := unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	rep := report(t, w)
	for _, wake := range rep.Wakes {
		inTask := wake.Context == WakeByTask || wake.Context == WakeBySoftirq
		if strings.HasSuffix(wake.Wakee.Call, "nanosleep") && !inTask && (wake.Context == WakeByUnknown || wake.Waker == WakeSide{FD: -1}) {
			return
		}
	}
	t.Errorf("no timer has woken anybody: %+v", rep.Wakes)
}

func TestWakeupsWantProcessesThatThereAre(t *testing.T) {
	t.Parallel()
	for _, pids := range [][]int{nil, make([]int, MaxWakeupPIDs+1)} {
		if _, err := NewWakeups(pids); err == nil {
			t.Errorf("%d processes are taken", len(pids))
		}
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, err := NewWakeups([]int{pid}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

func TestTracingProgramsHaveNoTestRun(t *testing.T) {
	t.Parallel()
	w := newTestWakeups(t, os.Getpid())
	// bpf_prog_test_run_tracing of net/bpf/test_run.c has EFAULT for what it does not know.
	if _, err := w.programs.Programs[bpf.WakeupsProgWakeupSwitch].Run(&cilium.RunOptions{}); !errors.Is(err, unix.EFAULT) {
		t.Errorf("%v: if the kernel does run the program, a test can be a table of events", err)
	}
}
