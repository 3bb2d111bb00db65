package main

import (
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/bench"
)

var soakTime = flag.Duration("soak", 5*time.Second, "how long each run with killed processes takes")

// Processes are killed, daemons restarted and connections cut while everything is
// verified: nothing is lost, doubled or reordered that had not to be, and nothing is
// written where a region has ended.
func TestSoak(t *testing.T) {
	onLinux(t)
	for _, args := range [][]string{
		{"--seed", "1", "--kills", "300ms"},
		{"--seed", "2", "--kills", "500ms", "--restarts", "900ms", "--provider", "rdsd"},
	} {
		o := rdsbench(t, append([]string{"stress", "--rdma", "--faults", "--json", "--warmup", "0s", "--duration", soakTime.String(), "--wire", "xrc",
			"--processes", "2", "--sockets", "2", "--peers", "2", "--depth", "4"}, args...)...)
		var rep bench.Report
		if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
			t.Fatalf("%q: exit %d, %v: %s %s", args, o.code, err, o.stdout, o.stderr)
		}
		row := rep.Rows[0]
		a := row.RDS.Account
		if !row.Finished || a == nil || a.Exchanges == 0 || a.Writes == 0 || a.Reads == 0 || a.Adds == 0 || a.Refused == 0 || a.Released == 0 || a.Cuts == 0 || a.Kills == 0 {
			t.Errorf("%q: %+v, %+v", args, row, a)
		} else if daemons := len(args) > 4; daemons != (a.Restarts > 0) || a.Lives > 0 && !daemons {
			t.Errorf("%q: %+v", args, a)
		}
	}
}
