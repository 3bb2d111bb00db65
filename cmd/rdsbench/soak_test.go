//go:build live

package main

import (
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
