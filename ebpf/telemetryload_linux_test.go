//go:build live

package ebpf

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/internal/netlab"
)

// LoadTelemetry and UnloadTelemetry of several processes at once take turns: each does what it
// should, and at the end all pins are there, or none.
func TestTelemetryIsLoadedAndUnloadedByManyAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(netlab.BPFFS(t), "rds")
	o := TelemetryOptions{Dir: dir, Ports: []uint16{21040}}
	load := func() {
		tel, err := LoadTelemetry(o)
		if err != nil {
			t.Error(err)
			return
		}
		if err := tel.Close(); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				load()
			}
		})
	}
	loaded := make(chan struct{})
	var unloads sync.WaitGroup
	unloads.Go(func() {
		for {
			select {
			case <-loaded:
				return
			default:
			}
			if err := UnloadTelemetry(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
				return
			}
		}
	})
	all.Wait()
	close(loaded)
	unloads.Wait()
	switch pinned, err := OpenTelemetry(dir); {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no pins, and the directory: %v", err)
		}
	case err != nil:
		t.Error(err)
	default:
		if _, err := pinned.SnapshotLocal(); err != nil {
			t.Error(err)
		}
		pinned.Close()
	}
	load()
	for _, name := range []string{bpf.TelemetryMapTelemetryAbout, bpf.TelemetryMapTelemetryDrops, bpf.TelemetryProgTelemetryConnections,
		bpf.TelemetryProgTelemetryRtt, bpf.TelemetryProgTelemetryArrival, bpf.TelemetryProgTelemetryRead, bpf.TelemetryProgTelemetryDrop} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A process that may pin, and may not give the pins a mode, leaves none of them behind; nor the
// directory, unless that was there before.
func TestTelemetryThatCannotBePinnedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	netlab.Root(t)
	base := netlab.BPFFS(t)
	shared := filepath.Join(base, "shared")
	must(t, os.Mkdir(shared, 0o755))
	for _, dir := range []string{filepath.Join(base, "made"), shared} {
		netlab.As(t, 65534, 65534, func() {
			tel, err := LoadTelemetry(TelemetryOptions{Dir: dir, Ports: []uint16{21041}})
			if err == nil {
				tel.Close()
			}
			if !errors.Is(err, ErrPermission) {
				t.Errorf("%s: %v", dir, err)
			}
		}, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE)
		if left := names(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", dir, left)
		}
		if _, err := os.Stat(dir); (err == nil) != (dir == shared) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
