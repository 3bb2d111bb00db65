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

// pinner puts this process on CPUs.
type pinner struct {
	allowed unix.CPUSet // processors that this process was started on
	procs   int         // GOMAXPROCS at the start
}

func newPinner() *pinner {
	p := &pinner{procs: runtime.GOMAXPROCS(0)}
	unix.SchedGetaffinity(0, &p.allowed) // fails only for a set that is too small
	return p
}

// pin puts all threads of this process on its CPU of a pair, or on all.
func (p *pinner) pin(pin bench.Pin, server bool) error {
	if pin == bench.PinNone {
		runtime.GOMAXPROCS(p.procs)
		return setAffinity(&p.allowed)
	}
	want := 0 // index of the wanted processor among the allowed ones
	if pin == bench.PinSplit && !server {
		want = 1
	}
	for cpu := range len(p.allowed) * 64 {
		if !p.allowed.IsSet(cpu) {
			continue
		}
		if want == 0 {
			var one unix.CPUSet
			one.Set(cpu)
			runtime.GOMAXPROCS(1)
			return setAffinity(&one)
		}
		want--
	}
	return fmt.Errorf("--pin %s needs more CPUs than this process may use", pin)
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
