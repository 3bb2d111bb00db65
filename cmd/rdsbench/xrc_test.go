//go:build live

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/rds"
)

// The whole table in short: every line has its comparison.
func TestXRCTable(t *testing.T) {
	onLinux(t)
	o := rdsbench(t, "xrc", "--duration", "100ms", "--warmup", "200ms", "--json")
	var rep bench.Report
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.stdout, o.stderr)
	}
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
		o := rdsbench(t, "rate", "--size", "64", "--wire", string(wire), "--duration", "40ms", "--warmup", "10ms", "--json")
		var rep bench.Report
		if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
			t.Fatalf("exit %d, %v: %s %s", o.code, err, o.stdout, o.stderr)
		}
		if rep.Wire != wire || !strings.Contains(rep.Settings(), "wire "+string(wire)) || rep.Rows[0].RDS.TCPConns != 1 {
			t.Errorf("%s: %+v", wire, rep)
		}
	}
}

// Workers of this process and of several, verbs and sockets: the sums are verified
// by the command itself, which fails otherwise.
func TestAtomic(t *testing.T) {
	onLinux(t)
	o := rdsbench(t, "atomic", "--wire", "xrc", "--duration", "40ms", "--warmup", "10ms", "--words", "10", "--json")
	var rep bench.Report
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.stdout, o.stderr)
	}
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
