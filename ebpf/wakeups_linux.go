package ebpf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

var wakeups = &feature{
	name:         "wake-ups of threads",
	kernel:       "5.15",
	capabilities: "CAP_BPF and CAP_PERFMON",
	probe: func() error {
		w, err := newWakeups(nil)
		if err == nil {
			w.Close()
		}
		return err
	},
}

// Wakeups counts how threads are woken, by tracepoints of the scheduler: each switch and each
// wake-up of the host then takes some 100 ns longer, those of the processes asked for less
// than 1 us. Nothing of it outlives the process.
type Wakeups struct {
	programs *ebpf.Collection
	links    []link.Link
	start    uint64 // ns on CLOCK_MONOTONIC
}

// NewWakeups begins to count the wake-ups of all threads of at most [MaxWakeupPIDs]
// processes, also of threads that start later, until Close. The error Is ErrNotSupported,
// ErrPermission, or os.ErrNotExist for a process that there is not.
func NewWakeups(pids []int) (*Wakeups, error) {
	if len(pids) == 0 || len(pids) > MaxWakeupPIDs {
		return nil, &Error{Feature: wakeups.name, Err: fmt.Errorf("%d processes: must be 1 to %d", len(pids), MaxWakeupPIDs)}
	}
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); pid <= 0 || err != nil {
			return nil, &Error{Feature: wakeups.name, Err: fmt.Errorf("process %d: %w", pid, os.ErrNotExist)}
		}
	}
	w, err := newWakeups(pids)
	if err != nil {
		return nil, wakeups.err(err)
	}
	return w, nil
}

// initialPIDs is what /proc/self/ns/pid is for processes whose process numbers are those of
// the kernel (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

func newWakeups(pids []int) (_ *Wakeups, err error) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != initialPIDs {
		return nil, fmt.Errorf("%w in a PID namespace (a container): the kernel has other process numbers", ErrNotSupported)
	}
	l := loading{btf: btf.NewCache(), set: map[string]any{"fd_calls": callsOfDescriptors()}}
	c, err := load(func() (*ebpf.CollectionSpec, error) { return withVariables(bpf.LoadWakeups, l.btf) }, l)
	if errors.Is(err, unix.ENOENT) { // the kernel does not know its variables' addresses: without CONFIG_KALLSYMS_ALL
		c, err = load(bpf.LoadWakeups, l)
	}
	if err != nil {
		return nil, err
	}
	w := &Wakeups{programs: c}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	for _, pid := range pids {
		if err := c.Maps[bpf.WakeupsMapWakeupPids].Put(uint32(pid), uint32(0)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{bpf.WakeupsProgWakeupWaking, bpf.WakeupsProgWakeupWakeup, bpf.WakeupsProgWakeupSwitch} {
		l, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		if err != nil {
			return nil, err
		}
		w.links = append(w.links, l)
	}
	// The programs count from now on, all three at once.
	w.start = monotonic()
	return w, c.Variables[bpf.WakeupsVarWakeupStart].Set(w.start)
}

// pseudoBTFID is BPF_PSEUDO_BTF_ID of linux/bpf.h: an instruction that loads the address of a
// variable of the kernel, which the kernel finds by the variable's type.
const pseudoBTFID = asm.R3

// withVariables makes an object's weak references to variables of the kernel such that the
// kernel resolves them. The loader only looks into /proc/kallsyms, where many kernels have no
// variables, and cannot have those of each CPU. References to what is not there stay 0.
func withVariables(object func() (*ebpf.CollectionSpec, error), types *btf.Cache) (*ebpf.CollectionSpec, error) {
	spec, err := object()
	if err != nil {
		return nil, err
	}
	kernel, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"__preempt_count", "pcpu_hot"} {
		var v *btf.Var
		if kernel.TypeByName(name, &v) != nil {
			continue // for its address is 0
		}
		id, err := kernel.TypeID(v)
		if err != nil {
			return nil, err
		}
		for _, p := range spec.Programs {
			for i, ins := range p.Instructions {
				if ins.Reference() == name {
					p.Instructions[i] = asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: pseudoBTFID, Constant: int64(id)}.WithSymbol(ins.Symbol())
				}
			}
		}
	}
	return spec, nil
}

// Close ends the counting.
func (w *Wakeups) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	w.links = nil
	w.programs.Close()
	return errors.Join(errs...)
}

// rawThread is struct thread of wakeups.bpf.c.
type rawThread struct {
	Ready, On, Off, CPU, Asleep, Preempted uint64
	Wakeups, Early, Sleeps                 uint64
	Preemptions, Missed                    uint64
	Latency                                [histogramSize]byte
	TGID, Woken                            uint32
	Call, FD                               int32
	Seen, _                                uint32
	Comm                                   [16]byte
}

// rawWakeKey is struct wake_key of wakeups.bpf.c.
type rawWakeKey struct {
	Waker, Wakee, Context                  uint32
	WakerCall, WakerFD, WakeeCall, WakeeFD int32
}

// rawWake is struct wake of wakeups.bpf.c.
type rawWake struct {
	Count uint64
	TGID  uint32
	Comm  [16]byte
	_     uint32
}

// contexts are those of wakeups.bpf.c, in their order there.
var contexts = [...]WakeContext{WakeByTask, WakeBySoftirq, WakeByInterrupt, WakeByUnknown}

// Report tells what has been counted since NewWakeups. The counting goes on.
func (w *Wakeups) Report() (WakeupsReport, error) {
	now := monotonic()
	r := WakeupsReport{Time: time.Duration(now - w.start)}
	names := make(map[uint32]rawThread)
	var tid uint32
	var raw rawThread
	threads := w.programs.Maps[bpf.WakeupsMapWakeupThreads].Iterate()
	for threads.Next(&tid, &raw) {
		names[tid] = raw
		r.Threads = append(r.Threads, raw.thread(tid, now))
	}
	var key rawWakeKey
	var wake rawWake
	wakes := w.programs.Maps[bpf.WakeupsMapWakeupWakes].Iterate()
	for wakes.Next(&key, &wake) {
		wakee := names[key.Wakee]
		r.Wakes = append(r.Wakes, Wake{
			Waker: WakeSide{
				PID: int(wake.TGID), TID: int(key.Waker), Name: comm(wake.Comm),
				Call: callName(key.WakerCall), FD: int(key.WakerFD),
			},
			Context: contexts[min(int(key.Context), len(contexts)-1)],
			Wakee: WakeSide{
				PID: int(wakee.TGID), TID: int(key.Wakee), Name: comm(wakee.Comm),
				Call: callName(key.WakeeCall), FD: int(key.WakeeFD),
			},
			Count: wake.Count,
		})
	}
	slices.SortFunc(r.Threads, func(a, b WakeupThread) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID))
	})
	slices.SortFunc(r.Wakes, func(a, b Wake) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Wakee.TID, b.Wakee.TID), cmp.Compare(a.Waker.TID, b.Waker.TID))
	})
	return r, errors.Join(threads.Err(), wakes.Err(),
		w.programs.Variables[bpf.WakeupsVarWakeupLostThreads].Get(&r.LostThreads),
		w.programs.Variables[bpf.WakeupsVarWakeupLostWakes].Get(&r.LostWakes))
}

// thread adds to what the kernel has summed up what the thread has been doing since then.
func (t *rawThread) thread(tid uint32, now uint64) WakeupThread {
	since := func(start uint64) uint64 {
		if start == 0 || start > now {
			return 0
		}
		return now - start
	}
	if t.Ready != 0 && t.Woken == 0 {
		t.Preempted += since(t.Ready)
	}
	return WakeupThread{
		PID: int(t.TGID), TID: int(tid), Name: comm(t.Comm),
		Wakeups: t.Wakeups, Early: t.Early, Sleeps: t.Sleeps, Preemptions: t.Preemptions, Missed: t.Missed,
		CPU: time.Duration(t.CPU + since(t.On)), Asleep: time.Duration(t.Asleep + since(t.Off)), Preempted: time.Duration(t.Preempted),
		Latency: parseHistogram(t.Latency[:]),
	}
}

// comm is a thread's name.
func comm(b [16]byte) string {
	name, _, _ := bytes.Cut(b[:], []byte{0})
	return string(name)
}
