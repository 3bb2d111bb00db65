package main

import (
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/bench"
)

var stressTime = flag.Duration("stress", time.Second, "how long each verified run with RDMA takes")

// Messages, operations and refusals, verified on both sides, with connections that
// are cut and without. The seed of a run that fails is in its name.
func TestStressWithRDMA(t *testing.T) {
	onLinux(t)
	for _, args := range [][]string{
		{"--seed", "1"},
		{"--seed", "2", "--faults"},
		{"--seed", "3", "--faults", "--processes", "2", "--sockets", "3", "--wire", "xrc"},
		{"--seed", "4", "--faults", "--provider", "rdsd", "--sockets", "4"},
		{"--seed", "5", "--faults", "--size", "1m", "--sockets", "2", "--peers", "2", "--depth", "4"},
	} {
		o := rdsbench(t, append([]string{"stress", "--rdma", "--json", "--warmup", "100ms", "--duration", stressTime.String()}, args...)...)
		var rep bench.Report
		if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
			t.Fatalf("%q: exit %d, %v: %s %s", args, o.code, err, o.stdout, o.stderr)
		}
		row := rep.Rows[0]
		a := row.RDS.Account
		if !row.Finished || a == nil || a.Replies == 0 || a.Writes == 0 || a.Reads == 0 || a.Atomics == 0 || a.Refused == 0 || a.Adds == 0 {
			t.Errorf("%q: %+v, %+v", args, row, a)
		} else if faults := len(args) > 2; faults != (a.Cuts > 0) || !faults && a.Dropped > 0 {
			t.Errorf("%q: %+v", args, a)
		}
	}
}
