package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/netlab"
)

// Telemetry is loaded when it is named, goes on when it is loaded again, and is gone when it is
// unloaded.
func TestTelemetryIsLoadedAndUnloaded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(netlab.BPFFS(t), "rds")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(bin.Path("rdsbpf"), append(args, "--dir", dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	since := func() string {
		t.Helper()
		var r struct {
			Loaded struct {
				Telemetry *telemetryReport `json:"telemetry"`
			} `json:"loaded"`
		}
		if err := json.Unmarshal([]byte(run("status", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Loaded.Telemetry == nil {
			return ""
		}
		return r.Loaded.Telemetry.Since.String()
	}
	if out := run("load", "telemetry", "--port", "21100"); !strings.Contains(out, "telemetry: TCP ports 21100, since ") {
		t.Error(out)
	}
	first := since()
	if run("load", "telemetry", "--port", "21100"); since() != first || first == "" {
		t.Errorf("loaded again: since %s, want %s", since(), first)
	}
	// What was loaded where there were no control groups is loaded anew where there are.
	run("unload", "telemetry")
	script := `umount -l $(awk '/ - cgroup2 /{print $5}' /proc/self/mountinfo) && "$0" load telemetry --port 21100 --dir "$1"`
	out, err := exec.Command("unshare", "--mount", "sh", "-c", script, bin.Path("rdsbpf"), dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "not measured: telemetry of round trips: cgroup2: not mounted; not measured: telemetry of round trips of older connections: there is no telemetry of round trips\n") {
		t.Errorf("without control groups: %v, %s", err, out)
	}
	if out := run("load", "telemetry", "--port", "21100"); strings.Contains(out, "not measured") {
		t.Error(out)
	}
	if run("load", "telemetry", "--port", "21101"); since() == first {
		t.Error("another port, and nothing is loaded")
	}
	if out := run("unload", "telemetry"); out != "telemetry: unloaded\n" || since() != "" {
		t.Errorf("%s: since %s", out, since())
	}
}
