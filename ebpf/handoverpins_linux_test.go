//go:build live

package ebpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	must(t, os.Mkdir(before, 0o755))
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
	must(t, err)
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

// With Keep a handover that is pinned already keeps its ports, owner and group, and one that
// others use stays as it is.
func TestHandoverThatIsKept(t *testing.T) {
	t.Parallel()
	hosts := netlab.Hosts(t, 2)
	here, there := hosts[0], hosts[1]
	dir := filepath.Join(netlab.BPFFS(t), "handover")
	load := func(host *netlab.Host, keep bool, owner int, ports ...uint16) error {
		h, err := LoadHandover(HandoverOptions{Dir: dir, Netns: host.Netns(), Keep: keep, Owner: owner, Ports: ports})
		if err == nil {
			err = h.Close()
		}
		return err
	}
	is := func(what string, host *netlab.Host, owner uint32, ports ...uint16) {
		t.Helper()
		h, err := OpenHandover(dir)
		must(t, err)
		defer h.Close()
		host.Do(func() {
			if s, err := h.Status(); err != nil || !s.Here || !slices.Equal(s.Ports, ports) {
				t.Errorf("%s: %+v, %v", what, s, err)
			}
		})
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, mapPrefixes), &st); err != nil || st.Uid != owner {
			t.Errorf("%s: owner %d, %v", what, st.Uid, err)
		}
	}
	must(t, load(here, true, 7, 16385, 18634))
	is("nothing to keep", here, 7, 16385, 18634)
	must(t, load(here, true, 8, 18634))
	is("fewer ports, another owner", here, 7, 16385, 18634)
	h, err := OpenHandover(dir)
	must(t, err)
	defer h.Close()
	ln := listenPlain(t, here, "tcp4", "127.0.0.1:0")
	must(t, h.Register(prefixes("10.1.0.0/24"), 16385, ln))
	for what, err := range map[string]error{"another port": load(here, true, 8, 17000), "another namespace": load(there, true, 8)} {
		if !errors.Is(err, unix.EBUSY) {
			t.Errorf("%s of a handover in use: %v", what, err)
		}
		is(what, here, 7, 16385, 18634)
	}
	ln.Close()
	if err := load(there, true, 8); err != nil {
		t.Errorf("nobody uses the handover: %v", err)
	}
	is("nobody uses the handover", there, 8, 16385, 18634)
	must(t, load(there, false, 9, 17000))
	is("without Keep", there, 9, 17000)
	must(t, UnloadHandover(dir))
}
