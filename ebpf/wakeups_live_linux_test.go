//go:build live

package ebpf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cilium "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

// The kernel does not run programs of type tp_btf for a test (TestTracingProgramsHaveNoTestRun),
// so these tests have real threads woken.

// relay is two processes, cat | cat. What is written to the first one comes back from the
// second one: each octet wakes each of them once.
type relay struct {
	first, second *exec.Cmd
	in            io.WriteCloser
	out           io.Reader
}

func newRelay(t testing.TB) *relay {
	t.Helper()
	r := &relay{first: exec.Command("cat"), second: exec.Command("cat")}
	var err error
	if r.in, err = r.first.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if r.second.Stdin, err = r.first.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if r.out, err = r.second.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*exec.Cmd{r.first, r.second} {
		start(t, c)
	}
	r.pass(t, 1) // both have started
	return r
}

// start starts a process that ends with the test.
func start(t testing.TB, c *exec.Cmd) {
	t.Helper()
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// pass sends n octets around, one after the other.
func (r *relay) pass(t testing.TB, n int) {
	t.Helper()
	b := []byte{0}
	for range n {
		if _, err := r.in.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r.out, b); err != nil {
			t.Fatal(err)
		}
	}
}

// voluntary is how often a process with one thread went to sleep, as Linux counts it.
func voluntary(t *testing.T, pid int) (n uint64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func near(got, want uint64, percent float64) bool {
	return float64(max(got, want)-min(got, want)) <= percent/100*float64(want)
}

func TestWakeupsAreThoseThatLinuxCounts(t *testing.T) {
	t.Parallel()
	const passes = 5000
	r := newRelay(t)
	first, second := r.first.Process.Pid, r.second.Process.Pid
	w := newTestWakeups(t, first, second)
	before := map[int]uint64{first: voluntary(t, first), second: voluntary(t, second)}
	began := time.Now()
	r.pass(t, passes)
	wall := time.Since(began)
	rep := report(t, w)
	if len(rep.Threads) != 2 {
		t.Fatalf("%d threads, want two: %+v", len(rep.Threads), rep.Threads)
	}
	for _, th := range rep.Threads {
		sleeps := voluntary(t, th.PID) - before[th.PID]
		if th.PID != th.TID || th.Name != "cat" || before[th.PID] == 0 {
			t.Errorf("a thread of nobody: %+v", th)
		}
		if !near(th.Sleeps+th.Missed/2, sleeps, 3) || !near(th.Wakeups-th.Early, sleeps, 3) || th.Missed > sleeps/10 {
			t.Errorf("process %d slept %d times: counted are %d sleeps, %d wake-ups, %d of them early",
				th.PID, sleeps, th.Sleeps, th.Wakeups, th.Early)
		}
		// A pipe may have been written to before its reader has gone to sleep.
		if th.Wakeups < passes/10 || th.Wakeups > passes*11/10 {
			t.Errorf("process %d: %d wake-ups, %d octets", th.PID, th.Wakeups, passes)
		}
		if !near(th.Latency.Count+th.Missed, th.Wakeups-th.Early, 3) {
			t.Errorf("process %d: %d wake-ups were followed by running, of %d", th.PID, th.Latency.Count, th.Wakeups-th.Early)
		}
		all := th.CPU + th.Asleep + th.Preempted + th.Latency.Sum
		if all > rep.Time*102/100 || all < rep.Time*98/100 && th.Missed == 0 || rep.Time < wall {
			t.Errorf("process %d: on a CPU %v, asleep %v, preempted %v, waiting %v: together %v, want %v",
				th.PID, th.CPU, th.Asleep, th.Preempted, th.Latency.Sum, all, rep.Time)
		}
	}
}

func TestWakesTellWhoWakesWhomAndInWhichCall(t *testing.T) {
	t.Parallel()
	const passes = 1000
	r := newRelay(t)
	w := newTestWakeups(t, r.second.Process.Pid)
	r.pass(t, passes)
	var all, bySibling uint64
	for _, wake := range report(t, w).Wakes {
		if wake.Wakee.PID != r.second.Process.Pid {
			t.Errorf("a process that was not asked for: %+v", wake)
		}
		all += wake.Count
		want := Wake{
			Waker:   WakeSide{PID: r.first.Process.Pid, TID: r.first.Process.Pid, Name: "cat", Call: "write", FD: 1},
			Context: WakeByTask,
			Wakee:   WakeSide{PID: r.second.Process.Pid, TID: r.second.Process.Pid, Name: "cat", Call: "read", FD: 0},
		}
		if wake.Context == WakeByUnknown { // on a kernel without CONFIG_KALLSYMS_ALL
			want.Context = WakeByUnknown
		}
		wake.Count, want.Count = 0, wake.Count
		if wake.Waker.TID == want.Waker.TID && wake.Wakee.Call == "read" {
			bySibling, wake.Count = bySibling+want.Count, want.Count
			if wake != want {
				t.Errorf("%+v, want %+v", wake, want)
			}
		}
	}
	if bySibling < passes/10 || !near(bySibling, all, 5) {
		t.Errorf("%d wake-ups, %d by the process in front", all, bySibling)
	}
}

func TestWaitingForABusyCPUIsLatency(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	busy := exec.Command("sh", "-c", "while :; do :; done")
	start(t, busy)
	var one unix.CPUSet
	one.Set(runtime.NumCPU() - 1)
	patient := r.first.Process.Pid
	for _, pid := range []int{patient, busy.Process.Pid} {
		if err := unix.SchedSetaffinity(pid, &one); err != nil {
			t.Skipf("needs CPU %d for its own: %v", runtime.NumCPU()-1, err)
		}
	}
	// SCHED_IDLE has a CPU only when others have had it for long.
	must(t, unix.SchedSetAttr(patient, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	w := newTestWakeups(t, patient, busy.Process.Pid)
	// Where other processes keep the busy one from its CPU, it takes longer until they meet.
	for deadline := time.Now().Add(20 * time.Second); ; {
		r.pass(t, 10)
		var waited, preempted Histogram
		for _, th := range report(t, w).Threads {
			switch th.PID {
			case patient:
				waited = th.Latency
			case busy.Process.Pid:
				preempted.Count, preempted.Sum = th.Preemptions, th.Preempted
			}
		}
		if waited.Quantile(0.99) > time.Millisecond && preempted.Count > 0 && preempted.Sum > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("99 %% of the wake-ups beside a busy thread took at most %v, which was preempted %d times for %v together",
				waited.Quantile(0.99), preempted.Count, preempted.Sum)
		}
	}
}

func TestSizeAndLoadTimeOfWakeups(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"wakeups_bpfel.o", "wakeups_bpfeb.o"} {
		f, err := os.Stat(filepath.Join("internal", "bpf", name))
		must(t, err)
		if f.Size() > 64<<10 {
			t.Errorf("%s has %d octets", name, f.Size())
		}
	}
	began := time.Now()
	newTestWakeups(t, os.Getpid())
	t.Logf("loaded and attached in %v", time.Since(began))
}

// Nothing is pinned: the programs leave the kernel with the process, by SIGKILL too.
func TestWakeupsEndWithTheirProcess(t *testing.T) {
	if os.Getenv("EBPF_WAKEUPS") != "" { // the process
		w, err := NewWakeups([]int{os.Getpid()})
		must(t, err)
		id, ok := infoID(t, w.programs.Programs[bpf.WakeupsProgWakeupSwitch])
		fmt.Println("loaded", id, ok)
		select {} // until it is killed
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to trace the scheduler")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestWakeupsEndWithTheirProcess$")
	c.Env = append(os.Environ(), "EBPF_WAKEUPS=1")
	out, err := c.StdoutPipe()
	must(t, err)
	start(t, c)
	var id uint32
	if _, err := fmt.Fscanf(out, "loaded %d true\n", &id); err != nil {
		t.Fatal(err)
	}
	p, err := cilium.NewProgramFromID(cilium.ProgramID(id))
	if err != nil {
		t.Fatalf("program %d of a process that lives: %v", id, err)
	}
	p.Close()
	must(t, c.Process.Kill())
	_ = c.Wait()
	// The kernel frees programs a little later.
	for deadline := time.Now().Add(10 * time.Second); ; {
		p, err := cilium.NewProgramFromID(cilium.ProgramID(id))
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err == nil {
			p.Close()
		}
		if time.Now().After(deadline) {
			t.Fatalf("program %d outlives its process: %v", id, err)
		}
		runtime.Gosched()
	}
}

func infoID(t *testing.T, p *cilium.Program) (uint32, bool) {
	t.Helper()
	info, err := p.Info()
	must(t, err)
	id, ok := info.ID()
	return uint32(id), ok
}

// The programs run for each switch and each wake-up of the host: the figures are those of one
// octet through two processes.
func BenchmarkWakeups(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root, to trace the scheduler")
	}
	r := newRelay(b)
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			r.pass(b, 1)
		}
	})
	b.Run("with", func(b *testing.B) {
		w := newTestWakeups(b, r.first.Process.Pid, r.second.Process.Pid, os.Getpid())
		stats, err := cilium.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
		must(b, err)
		defer stats.Close()
		for b.Loop() {
			r.pass(b, 1)
		}
		for _, name := range []string{bpf.WakeupsProgWakeupWaking, bpf.WakeupsProgWakeupWakeup, bpf.WakeupsProgWakeupSwitch} {
			s, err := w.programs.Programs[name].Stats()
			must(b, err)
			b.ReportMetric(float64(s.Runtime)/float64(max(s.RunCount, 1)), strings.TrimPrefix(name, "wakeup_")+"-ns/run")
		}
	})
}
