//go:build !live

package main

import (
	"testing"

	"github.com/rds-go/rds/ebpf"
)

// What is reported of a connection counts from the last report, also when the program has closed
// the connection since; of another connection with the same addresses all counts.
func TestKernelReportCountsAConnectionOnce(t *testing.T) {
	t.Parallel()
	var r kernelReader
	for i, step := range []struct{ inode, cookie, counted, want uint64 }{
		{0, 5, 2, 2},  // not accepted yet
		{11, 5, 7, 5}, // accepted
		{0, 5, 8, 1},  // closed, and sends what is left
		{0, 6, 9, 9},  // another one, not accepted yet
		{12, 6, 9, 0}, // accepted
		{12, 6, 4, 4}, // telemetry was loaded anew
	} {
		h := ebpf.Histogram{Count: step.counted}
		all := []ebpf.Connection{{Inode: step.inode, Cookie: step.cookie, RTTs: h, Waits: h}}
		r.sinceLast(all)
		if all[0].RTTs.Count != step.want || all[0].Waits.Count != step.want {
			t.Errorf("step %d: %d round trips and %d waits, want %d", i, all[0].RTTs.Count, all[0].Waits.Count, step.want)
		}
	}
}
