//go:build live

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/rds"
)

// One of several applications is stopped twice, each time until its queue is not ready,
// while the others stream on the same connection. The command itself fails when a number
// is missing, double or out of order, or a message is dropped.
func TestStoppedApplication(t *testing.T) {
	onLinux(t)
	o := rdsbench(t, "stopped", "--pairs", "3", "--sockets", "16", "--repeat", "2", "--duration", "200ms", "--warmup", "200ms", "--json")
	var rep bench.Report
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.stdout, o.stderr)
	}
	row := rep.Rows[0]
	s := row.Standstill
	if !row.Finished || row.Runs != 2 || row.RDS.TCPConns != 1 || s == nil || !strings.Contains(row.Sentence(), "arrived in order") {
		t.Fatalf("%+v", row)
	}
	if s.Rounds != 2 || s.Queue == 0 || s.Backlog <= rds.DefaultReceiveBacklog {
		t.Errorf("the queue was not held back: %+v", s)
	}
	if row.RDS.Messages == 0 || row.Active.Messages == 0 || s.Slowest <= 0 || s.Total <= row.RDS.Messages+row.Active.Messages {
		t.Errorf("the others: %+v, %+v, %+v", row.RDS, row.Active, s)
	}
	// What the connection holds comes on top of the backlog, and nothing when that has
	// come; without a queue the sockets' buffers would let 32 MiB wait.
	if s.Overrun != 0 || s.Backlog > 2*rds.DefaultReceiveBacklog || s.Grown > 1<<20 {
		t.Errorf("memory: %+v", s)
	}
	// An application's shared memory is bounded by its arenas, the daemon's own by the backlogs.
	if grown := s.Private.Peak - s.Private.Before; s.Private.Peak == 0 || grown > 16*rds.DefaultReceiveBacklog {
		t.Errorf("the daemon's own memory has grown by %d bytes: %+v", grown, s)
	}
}
