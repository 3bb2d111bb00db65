//go:build live

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kernel "github.com/cilium/ebpf"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
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
		rdstest.Must(t, json.Unmarshal([]byte(run("status", "--json")), &r))
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
	tel, err := ebpf.OpenTelemetry(dir)
	rdstest.Must(t, err)
	lacking := 0
	for _, f := range tel.Features() {
		if f.Err != nil {
			lacking++
			if !errors.Is(f.Err, ebpf.ErrNotSupported) || strings.Contains(f.Err.Error(), "needs Linux") {
				t.Errorf("without control groups: %v", f.Err)
			}
		}
	}
	if lacking != 2 {
		t.Errorf("without control groups: %d parts are missing, want 2", lacking)
	}
	tel.Close()
	if out := run("load", "telemetry", "--port", "21100"); strings.Contains(out, "not measured") {
		t.Error(out)
	}
	// What another version of rdsbpf has loaded is loaded anew.
	current := since()
	ofAnotherVersion(t, filepath.Join(dir, "telemetry_about"))
	if run("load", "telemetry", "--port", "21100"); since() == current {
		t.Error("the programs of another version stay")
	}
	current = since()
	if run("load", "telemetry", "--port", "21100"); since() != current {
		t.Errorf("loaded again: since %s, want %s", since(), current)
	}
	if run("load", "telemetry", "--port", "21101"); since() == first {
		t.Error("another port, and nothing is loaded")
	}
	if out := run("unload", "telemetry"); out != "telemetry: unloaded\n" || since() != "" {
		t.Errorf("%s: since %s", out, since())
	}
}

// ofAnotherVersion changes the digest of the programs in the text about pinned telemetry.
func ofAnotherVersion(t *testing.T, about string) {
	t.Helper()
	m, err := kernel.LoadPinnedMap(about, nil)
	rdstest.Must(t, err)
	defer m.Close()
	raw, err := m.LookupBytes(uint32(0))
	rdstest.Must(t, err)
	var text map[string]json.RawMessage
	rdstest.Must(t, json.Unmarshal(bytes.TrimRight(raw, "\x00"), &text))
	if len(text["tags"]) < 10 {
		t.Fatalf("no digest in %s", raw)
	}
	text["tags"] = json.RawMessage(`"telemetry_rtt 0123456789abcdef"`)
	other, err := json.Marshal(text)
	rdstest.Must(t, err)
	rdstest.Must(t, m.Put(uint32(0), append(other, make([]byte, len(raw)-len(other))...)))
}
