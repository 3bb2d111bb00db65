package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/bench"
)

// allowed are the CPUs that this process was started on; procs its GOMAXPROCS.
var (
	allowed = func() (s unix.CPUSet) { unix.SchedGetaffinity(0, &s); return }()
	procs   = runtime.GOMAXPROCS(0)
)

// pin puts all threads of this process on its CPU of a pair, or on all.
func pin(p bench.Pin, server bool) error {
	if p == bench.PinNone {
		runtime.GOMAXPROCS(procs)
		return setAffinity(&allowed)
	}
	want := 0 // index among the allowed ones
	if p == bench.PinSplit && !server {
		want = 1
	}
	var one unix.CPUSet
	for cpu := range len(allowed) * 64 {
		if !allowed.IsSet(cpu) {
			continue
		}
		if want == 0 {
			one.Set(cpu)
			runtime.GOMAXPROCS(1)
			return setAffinity(&one)
		}
		want--
	}
	return fmt.Errorf("--pin %s needs more CPUs than this process may use", p)
}

// setAffinity sets it for every thread. One that starts meanwhile may have
// inherited what was before, so it goes on until it has seen no new one.
func setAffinity(set *unix.CPUSet) error {
	done := map[int]bool{}
	for {
		fresh := false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, _ := strconv.Atoi(t.Name())
			if done[tid] {
				continue
			}
			fresh, done[tid] = true, true
			if err := unix.SchedSetaffinity(tid, set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pin: %w", os.NewSyscallError("sched_setaffinity", err))
			}
		}
		if !fresh {
			return nil
		}
	}
}

// isTerminal tells whether a file is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
