//go:build live

package main

import (
	"strings"
	"testing"

	"github.com/rds-go/rds/rds"
)

// The whole table in short: every line has its comparison.
func TestXRCTable(t *testing.T) {
	onLinux(t)
	rep := reportOf(t, "xrc", "--duration", "100ms", "--warmup", "200ms")
	if len(rep.Rows) != 9 {
		t.Errorf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		if !row.Finished || row.RDS.Messages == 0 || row.RDS.TCPConns != 1 {
			t.Errorf("%s: %+v", row.Title, row)
		}
		if row.OfOverTCP == 0 && row.Ratio == 0 && row.OfActive == 0 {
			t.Errorf("%s is compared with nothing", row.Title)
		}
	}
	if s := rep.Rows[8].Sentence(); !strings.Contains(s, "1 stopped: the others have") {
		t.Errorf("%q", s)
	}
}

// Processes of daemons, of which one is stopped in the middle of a flood.
func TestStoppedProcess(t *testing.T) {
	rows := daemonRun(t, "mux", "--processes", "3", "--stopped", "1")
	if row := rows[0]; len(rows) != 1 || row.Active == nil || row.OfActive <= 0 || row.RDS.TCPConns != 1 {
		t.Errorf("%+v", rows)
	}
}

func TestWireIsForced(t *testing.T) {
	onLinux(t)
	for _, wire := range []rds.Wire{rds.WireTCP, rds.WireXRC} {
		rep := reportOf(t, "rate", "--size", "64", "--wire", string(wire), "--duration", "40ms", "--warmup", "10ms")
		if rep.Wire != wire || !strings.Contains(rep.Settings(), "wire "+string(wire)) || rep.Rows[0].RDS.TCPConns != 1 {
			t.Errorf("%s: %+v", wire, rep)
		}
	}
}

// Workers of this process and of several, verbs and sockets: the sums are verified
// by the command itself, which fails otherwise.
func TestAtomic(t *testing.T) {
	onLinux(t)
	rep := reportOf(t, "atomic", "--wire", "xrc", "--duration", "40ms", "--warmup", "10ms", "--words", "10")
	if len(rep.Rows) != 12 {
		t.Errorf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		conns := max(row.Work.Processes, 1)
		if row.Work.Verbs {
			conns *= row.Work.Workers
		}
		if !row.Finished || row.RDS.Total == 0 || row.RDS.TCPConns != conns || !strings.Contains(row.Sentence(), "add up") {
			t.Errorf("%s: %+v", row.Title, row)
		}
	}
}

// One of several applications is stopped twice, each time until its queue is not ready,
// while the others stream on the same connection. The command itself fails when a number
// is missing, double or out of order, or a message is dropped.
func TestStoppedApplication(t *testing.T) {
	onLinux(t)
	rep := reportOf(t, "stopped", "--pairs", "3", "--sockets", "16", "--repeat", "2", "--duration", "200ms", "--warmup", "200ms")
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
