package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

// tracing is what --wakeups is told.
type tracing struct {
	on   bool
	time time.Duration // 0: not told
	per  float64       // round trips, or what else, a second; 0: not told
}

// check says what does not go with --wakeups.
func (t *tracing) check(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"wakeups", "for", "per", "json"}, f.Name) {
			err = cli.Usagef("--%s does not go with --wakeups", f.Name)
		}
	})
	return err
}

// run counts the wake-ups of processes, of all that are called rdsd if none is given, for the
// time asked for, or until ctx ends.
func (t *tracing) run(ctx context.Context, args []string, asJSON bool, stdout io.Writer) error {
	if t.per < 0 {
		return cli.Usagef("--per must not be less than 0")
	}
	period := cmp.Or(t.time, 5*time.Second)
	var pids []int
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		if err != nil || pid <= 0 {
			return cli.Usagef("%q is no process number", arg)
		}
		pids = append(pids, pid)
	}
	if len(args) == 0 {
		if pids = processesNamed("rdsd"); len(pids) == 0 {
			return fmt.Errorf("no process is called rdsd: give the numbers of processes")
		}
	}
	w, err := ebpf.NewWakeups(pids)
	if err != nil {
		return err
	}
	defer w.Close()
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r, err := w.Report()
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return writeWakeups(stdout, &r, t.per)
}

// processesNamed are the processes with a name, as ps shows it.
func processesNamed(name string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is right
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == name {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the directory's name is a number
			pids = append(pids, pid)
		}
	}
	return pids
}

// writeWakeups prints a table of the threads, and one of who wakes whom, in which threads of
// the same process that are in the same system calls share a line.
func writeWakeups(w io.Writer, r *ebpf.WakeupsReport, per float64) error {
	seconds := r.Time.Seconds()
	calls := make(map[int]map[string]uint64) // of each thread: where it slept when it was woken
	ways := make(map[[2]string]uint64)
	var total uint64
	for _, k := range r.Wakes {
		total += k.Count
		if calls[k.Wakee.TID] == nil {
			calls[k.Wakee.TID] = make(map[string]uint64)
		}
		calls[k.Wakee.TID][inCall(k.Wakee)] += k.Count
		ways[[2]string{waker(k), fmt.Sprintf("%s/%d %s", k.Wakee.Name, k.Wakee.PID, inCall(k.Wakee))}] += k.Count
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "PID\tTID\twakes/s\tp50\tp99\tCPU %%\tpreempted/s\t  thread, and what it is woken from\n")
	for _, t := range r.Threads {
		fmt.Fprintf(tab, "%d\t%d\t%.0f\t%v\t%v\t%.1f\t%.0f\t  %s: %s\n", t.PID, t.TID, float64(t.Wakeups)/seconds,
			micros(t.Latency.Quantile(0.5)), micros(t.Latency.Quantile(0.99)), 100*t.CPU.Seconds()/seconds,
			float64(t.Preemptions)/seconds, t.Name, shares(calls[t.TID]))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	tab = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(n uint64, what string) {
		fmt.Fprintf(tab, "%.0f\t", float64(n)/seconds)
		if per > 0 {
			fmt.Fprintf(tab, "%.2f\t", float64(n)/seconds/per)
		}
		fmt.Fprintf(tab, "  %s\n", what)
	}
	heading := "wakes/s\t  who wakes whom\n"
	if per > 0 {
		heading = "wakes/s\tper\t  who wakes whom\n"
	}
	fmt.Fprint(tab, heading)
	for _, way := range slices.SortedFunc(maps.Keys(ways), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(ways[b], ways[a]), slices.Compare(a[:], b[:]))
	}) {
		if ways[way]*200 >= total { // the rest is noise
			line(ways[way], way[0]+" -> "+way[1])
		}
	}
	line(total, "all, with those of less than 0.5 %")
	if err := tab.Flush(); err != nil {
		return err
	}
	var missed uint64
	for _, t := range r.Threads {
		missed += t.Missed
	}
	if missed+r.LostThreads+r.LostWakes > 0 {
		fmt.Fprintf(w, "not counted: %d switches that the kernel did not show, %d of threads and %d ways of waking beyond the limits\n",
			missed, r.LostThreads, r.LostWakes)
	}
	return nil
}

// micros rounds to a tenth of a microsecond; a histogram is no better.
func micros(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }

// waker names a waker for people.
func waker(k ebpf.Wake) string {
	if k.Context == ebpf.WakeByInterrupt {
		return "an interrupt"
	}
	if k.Waker.PID == 0 {
		return "an interrupt of an idle CPU"
	}
	who := fmt.Sprintf("%s/%d %s", k.Waker.Name, k.Waker.PID, inCall(k.Waker))
	if k.Context == ebpf.WakeBySoftirq {
		who += ", in a softirq"
	}
	return who
}

// inCall is the system call that a thread is in.
func inCall(s ebpf.WakeSide) string {
	switch {
	case s.Call == "":
		return "in no call"
	case s.FD >= 0:
		return fmt.Sprintf("%s(%d)", s.Call, s.FD)
	}
	return s.Call
}

// shares are the most frequent of some calls, with their shares.
func shares(calls map[string]uint64) string {
	var total uint64
	names := make([]string, 0, len(calls))
	for name, n := range calls {
		total += n
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f %%", name, 100*float64(calls[name])/float64(total))
	}
	return strings.Join(names[:min(len(names), 4)], ", ")
}
