//go:build live

package ebpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/internal/netlab"
)

func TestTelemetryIsNotForEverybody(t *testing.T) {
	t.Parallel()
	for _, capabilities := range [][]int{nil, {unix.CAP_CHOWN}, {unix.CAP_BPF}} {
		netlab.As(t, 65534, 65534, func() {
			tel, err := LoadTelemetry(TelemetryOptions{})
			if err == nil {
				tel.Close()
			}
			e := (*Error)(nil)
			if !errors.Is(err, ErrPermission) || !errors.As(err, &e) || !strings.Contains(err.Error(), "CAP_BPF and CAP_PERFMON") {
				t.Errorf("with capabilities %v: %v", capabilities, err)
			}
		}, capabilities...)
	}
}

func TestTelemetryPartsAreMissingOneByOne(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	dir := netlab.BPFFS(t)
	for i, c := range []struct {
		program string
		missing []string // features
	}{
		{bpf.TelemetryProgTelemetryRtt, []string{telemetryRTT.name, telemetryOlder.name}},
		{bpf.TelemetryProgTelemetryArrival, []string{telemetryWait.name}},
		{bpf.TelemetryProgTelemetryRead, []string{telemetryWait.name}},
		{bpf.TelemetryProgTelemetryDrop, []string{telemetryDrops.name}},
		{bpf.TelemetryProgTelemetryAdopt, []string{telemetryOlder.name}},
	} {
		port := uint16(21010 + i)
		o := TelemetryOptions{Dir: filepath.Join(dir, "rds"), Ports: []uint16{port}, missing: []string{c.program}}
		tel := measure(t, o)
		pinned, err := OpenTelemetry(o.Dir)
		must(t, err)
		client, server := dial(t, a, b, b.IP4, port)
		roundTrips(t, client, server, 10, func() {})
		if missing := len(c.missing) > 0; pinned.Outdated() != missing { // this kernel has all parts
			t.Errorf("without %s: outdated %v", c.program, !missing)
		}
		pinned.tags = "of another version"
		if !pinned.Outdated() {
			t.Error("programs of another version will do")
		}
		for _, x := range []*Telemetry{tel, pinned} {
			for _, f := range x.Features() {
				e := (*Error)(nil)
				switch gone := slices.Contains(c.missing, f.Name); {
				case gone && (!errors.Is(f.Err, ErrNotSupported) || !errors.As(f.Err, &e) || f.Name == c.missing[0] && !strings.Contains(f.Err.Error(), f.Kernel)):
					t.Errorf("without %s: %v", c.program, f)
				case !gone && f.Err != nil:
					t.Errorf("without %s: %v", c.program, f)
				}
			}
			got := find(t, x, client)
			if want := !slices.Contains(c.missing, telemetryRTT.name); got.Timed != want || (got.RTTs.Count > 0) != want {
				t.Errorf("without %s: timed %v, %d round trips", c.program, got.Timed, got.RTTs.Count)
			}
			if want := !slices.Contains(c.missing, telemetryWait.name); (got.Waits.Count > 0) != want {
				t.Errorf("without %s: %d waits", c.program, got.Waits.Count)
			}
			_, err := x.Drops()
			if want := !slices.Contains(c.missing, telemetryDrops.name); (err == nil) != want || !want && !errors.Is(err, ErrNotSupported) {
				t.Errorf("without %s: drops: %v", c.program, err)
			}
		}
		must(t, pinned.Close())
	}
	if _, err := LoadTelemetry(TelemetryOptions{missing: []string{bpf.TelemetryProgTelemetryConnections}}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("without the list: %v", err)
	}
}

// spoils tries what nobody may do with pins, and returns how many links it tried.
func spoils(t *testing.T, dir string, uid, gid int) (links int) {
	t.Helper()
	for _, part := range telemetryParts {
		for _, name := range part.programs {
			path := filepath.Join(dir, name)
			if l, err := link.LoadPinnedLink(path, nil); err == nil {
				l.Close()
				t.Errorf("uid %d, gid %d opens the link %s", uid, gid, name)
			} else if !errors.Is(err, os.ErrNotExist) {
				links++
			}
			if err := os.Chmod(path, 0o666); err == nil {
				t.Errorf("uid %d, gid %d changes the mode of %s", uid, gid, name)
			}
		}
	}
	if uid != 0 { // root's directory: the unit mounts it read-only
		if err := UnloadTelemetry(dir); !errors.Is(err, ErrPermission) {
			t.Errorf("uid %d removes the pins: %v", uid, err)
		}
	}
	return links
}

func TestPinnedTelemetryIsReadByItsGroupAndRemovedByNobody(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	base := netlab.BPFFS(t)
	// The directories of a test are root's alone.
	for dir := filepath.Dir(base); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	dir := filepath.Join(base, "rds")
	if _, err := OpenTelemetry(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no pins: %v", err)
	}
	const group = 54321
	o := TelemetryOptions{Dir: dir, Ports: []uint16{21007}, Group: group}
	tel := measure(t, o)
	if err := tel.Close(); err != nil { // its process is gone
		t.Fatal(err)
	}
	client, server := dial(t, a, b, b.IP4, 21007)
	roundTrips(t, client, server, 10, func() {})
	links := 0
	for _, who := range []struct {
		uid, gid int
		reads    bool
	}{{65534, group, true}, {65534, 65534, false}, {0, group, true}} {
		read := func() {
			tel, err := OpenTelemetry(dir)
			if !who.reads {
				if !errors.Is(err, ErrPermission) {
					t.Errorf("uid %d, gid %d: %v", who.uid, who.gid, err)
				}
				return
			}
			if err != nil {
				t.Errorf("uid %d, gid %d: %v", who.uid, who.gid, err)
				return
			}
			defer tel.Close()
			all, err := tel.SnapshotLocal()
			if err != nil || len(all) != 1 || all[0].RTTs.Count == 0 || all[0].Waits.Count != 10 {
				t.Errorf("uid %d, gid %d: %+v, %v", who.uid, who.gid, all, err)
			}
			if _, err := tel.Drops(); err != nil {
				t.Errorf("uid %d, gid %d: %v", who.uid, who.gid, err)
			}
		}
		a.As(who.uid, who.gid, read)
		a.As(who.uid, who.gid, func() { links += spoils(t, dir, who.uid, who.gid) })
	}
	if links != 3*5 {
		t.Errorf("%d links tried, want 5 by each", links)
	}
	must(t, UnloadTelemetry(dir))
	if err := UnloadTelemetry(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unloaded twice: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}
