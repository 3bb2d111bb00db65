package ebpf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// A directory that LoadHandover has made is gone when nothing could be loaded into it. One that
// was there before stays.
func TestHandoverThatFailsLeavesNoDirectory(t *testing.T) {
	t.Parallel()
	mount, plain := netlab.BPFFS(t), t.TempDir()
	before := filepath.Join(mount, "before")
	if err := os.Mkdir(before, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, dir string
		stays     bool
		want      error // nil: any error
	}{
		{"without capabilities", filepath.Join(mount, "handover"), false, ErrPermission},
		{"not on a BPF file system", filepath.Join(plain, "handover"), false, nil},
		{"a directory that was there", before, true, ErrPermission},
	} {
		var err error
		netlab.As(t, 0, 0, func() {
			var h *Handover
			if h, err = LoadHandover(HandoverOptions{Dir: c.dir}); err == nil {
				h.Close()
			}
		})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := os.Stat(c.dir); c.stays != (err == nil) {
			t.Errorf("%s: the directory is there: %v, want %v", c.what, err == nil, c.stays)
		}
	}
}

// Whoever holds the lock of the directory does not hold up others for longer than lockWait.
func TestHandoverDoesNotWaitForeverForOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(netlab.BPFFS(t), "handover")
	o := HandoverOptions{Dir: dir, Netns: netlab.Hosts(t, 1)[0].Netns()}
	h := loadHandover(t, o)
	defer func() { _ = UnloadHandover(dir) }()
	lock, err := os.Open(dir)
	if err == nil {
		defer lock.Close()
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		h, err := LoadHandover(o)
		if err == nil {
			h.Close()
		}
		done <- err
	}()
	go func() { done <- UnloadHandover(dir) }()
	late := time.After(6 * lockWait)
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("the lock is held: %v", err)
			}
		case <-late:
			_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // lets the goroutines end
			t.Error("waits for the lock without a bound")
			<-done
		}
	}
	if _, err := h.Status(); err != nil {
		t.Errorf("the handover that was there: %v", err)
	}
}
