//go:build live

package main

import (
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
		{"--seed", "3", "--faults", "--processes", "2", "--sockets", "3"},
		{"--seed", "4", "--faults", "--provider", "rdsd", "--sockets", "4"},
		{"--seed", "5", "--faults", "--size", "1m", "--sockets", "2", "--peers", "2", "--depth", "4"},
	} {
		faults := len(args) > 2
		row := stressUntil(t, *stressTime, func(row *bench.Row) bool {
			a := row.RDS.Account
			return a.Replies > 0 && a.Writes > 0 && a.Reads > 0 && a.Atomics > 0 && a.Refused > 0 && a.Adds > 0 && (a.Cuts > 0 || !faults)
		}, append([]string{"--warmup", "100ms"}, args...)...)
		if a := row.RDS.Account; !faults && a.Cuts+a.Dropped > 0 {
			t.Errorf("%q: %+v", args, a)
		}
	}
}

// stressUntil runs a verified stress with operations. A slow machine may not come to
// everything that the seed holds; it gets up to eight times the time. Each run has to
// be right, however little it came to. It is on XRC in any case: a peer that does not
// answer within a second, or refuses it as long, would be served over TCP, where there
// are no operations.
func stressUntil(t *testing.T, d time.Duration, everything func(*bench.Row) bool, args ...string) *bench.Row {
	t.Helper()
	for most := 8 * d; ; d *= 2 {
		rep := reportOf(t, append([]string{"stress", "--rdma", "--wire", "xrc", "--duration", d.String()}, args...)...)
		row := &rep.Rows[0]
		if !row.Finished || row.RDS.Account == nil {
			t.Fatalf("%q: %+v", args, row)
		}
		switch {
		case everything(row):
			return row
		case d == most:
			t.Fatalf("%q: not everything in %v: %+v", args, d, row.RDS.Account)
		}
		t.Logf("%q: not everything in %v: %+v", args, d, row.RDS.Account)
	}
}

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
		daemons := len(args) > 4
		row := stressUntil(t, *soakTime, func(row *bench.Row) bool {
			a := row.RDS.Account
			return a.Exchanges > 0 && a.Writes > 0 && a.Reads > 0 && a.Adds > 0 && a.Refused > 0 && a.Released > 0 && a.Cuts > 0 && a.Kills > 0 && (a.Restarts > 0 || !daemons)
		}, append([]string{"--faults", "--warmup", "0s", "--processes", "2", "--sockets", "2", "--peers", "2", "--depth", "4"}, args...)...)
		if a := row.RDS.Account; !daemons && a.Lives+a.Restarts > 0 {
			t.Errorf("%q: %+v", args, a)
		}
	}
}
