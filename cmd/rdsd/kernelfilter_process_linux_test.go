//go:build live

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// filtered is a host with rdsbpf and rdsd, a peer and a stranger.
type filtered struct {
	t                      *testing.T
	host, friend, stranger *netlab.Host
	file, ctl, pins        string
}

func newFiltered(t *testing.T) *filtered {
	t.Helper()
	hosts := netlab.Hosts(t, 3)
	tmp := rdstest.Dir(t)
	return &filtered{t: t, host: hosts[0], friend: hosts[1], stranger: hosts[2],
		file: filepath.Join(tmp, "rdsd.toml"), ctl: filepath.Join(tmp, "c.sock"), pins: filepath.Join(netlab.BPFFS(t), "rds")}
}

// configure writes rdsd's file.
func (f *filtered) configure(deny, kernel string, allow ...netip.Addr) {
	f.t.Helper()
	var list []string
	for _, a := range allow {
		list = append(list, fmt.Sprintf("'%v'", a))
	}
	text := fmt.Sprintf("listen = ['%v']\nsocket = 'none'\ncontrol = '%s'\n[admission]\nallow = [%s]\nkernel = '%s'\ndeny = '%s'\npins = '%s'\n",
		f.host.IP4, f.ctl, strings.Join(list, ", "), kernel, deny, f.pins)
	must(f.t, os.WriteFile(f.file, []byte(text), 0o600))
}

// rdsbpf runs rdsbpf on the host.
func (f *filtered) rdsbpf(args ...string) string {
	f.t.Helper()
	return f.host.Run(append([]string{bin.Path("rdsbpf")}, args...)...)
}

// connect connects to a port of the host, for so long.
func (f *filtered) connect(from *netlab.Host, port int, limit time.Duration) (err error) {
	f.t.Helper()
	from.Do(func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", fmt.Sprintf("%v:%d", f.host.IP4, port), limit); err == nil {
			_ = c.Close()
		}
	})
	return err
}

// reaches fails the test unless somebody can connect.
func (f *filtered) reaches(who string, from *netlab.Host, port int) {
	f.t.Helper()
	if err := f.connect(from, port, 10*time.Second); err != nil {
		f.t.Errorf("%s: port %d: %v", who, port, err)
	}
}

// denied fails the test unless somebody's connect ends as deny says.
func (f *filtered) denied(who, deny string, from *netlab.Host, port int) {
	f.t.Helper()
	limit := 10 * time.Second
	if deny == "silent" {
		limit = 250 * time.Millisecond
	}
	err := f.connect(from, port, limit)
	var timeout net.Error
	if deny == "refuse" && !errors.Is(err, syscall.ECONNREFUSED) || deny == "silent" && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		f.t.Errorf("%s: port %d: %v", who, port, err)
	}
}

// admission is what rdsd reports.
func (f *filtered) admission() rds.AdmissionInfo {
	f.t.Helper()
	info, err := rds.FetchInfo(context.Background(), f.ctl)
	if err != nil || info.Admission == nil || info.Admission.Kernel == nil {
		f.t.Fatalf("no report of the filter: %v, %+v", err, info.Admission)
	}
	return *info.Admission
}

// Strangers do not get as far as rdsd; SIGHUP opens the filter for them and closes it; it
// stays when rdsd is killed, and is gone when rdsbpf unloads it.
func TestKernelFilterKeepsStrangersFromTheDaemon(t *testing.T) {
	t.Parallel()
	for _, deny := range []string{"refuse", "silent"} {
		t.Run(deny, func(t *testing.T) {
			t.Parallel()
			f := newFiltered(t)
			f.configure(deny, "require", f.friend.IP4)
			f.rdsbpf("load", "--config", f.file)
			if again := f.rdsbpf("load", "--config", f.file); !strings.Contains(again, deny+" by ") {
				t.Errorf("loaded again: %s", again)
			}
			d := daemonOn(t, f.host, "--config", f.file)
			d.Line(d.Stderr, "kernel filter set")
			d.Line(d.Stderr, "ready")
			for _, port := range []int{rds.DefaultPort, rds.DefaultXRCPort} {
				f.reaches("the peer", f.friend, port)
				f.denied("the stranger", deny, f.stranger, port)
			}
			if a := f.admission(); !a.Kernel.Active || a.Kernel.Prefixes != 1 || a.Kernel.Refused < 2 || a.Kernel.Deny != deny || a.Rejected != 0 {
				t.Errorf("%+v, filter %+v", a, a.Kernel)
			}
			if _, out, _ := clitest.Run(t, bin.Path("rdsinfo"), "--control", f.ctl, "-A"); !strings.Contains(out, "kernel filter: "+deny+" by ") {
				t.Errorf("rdsinfo -A: %s", out)
			}
			f.configure(deny, "require", f.friend.IP4, f.stranger.IP4)
			d.Signal(syscall.SIGHUP)
			d.Line(d.Stderr, "reloaded")
			f.reaches("after the list had it the stranger", f.stranger, rds.DefaultPort)
			f.configure(deny, "require", f.friend.IP4)
			d.Signal(syscall.SIGHUP)
			d.Line(d.Stderr, "reloaded")
			f.denied("off the list the stranger", deny, f.stranger, rds.DefaultPort)
			d.Signal(syscall.SIGKILL)
			d.Wait()
			var l net.Listener
			var err error
			f.host.Do(func() { l, err = net.Listen("tcp", fmt.Sprintf("%v:%d", f.host.IP4, rds.DefaultPort)) })
			must(t, err)
			defer l.Close()
			f.denied("without rdsd the stranger", deny, f.stranger, rds.DefaultPort)
			f.reaches("without rdsd the peer", f.friend, rds.DefaultPort)
			f.rdsbpf("unload", "--dir", f.pins)
			f.reaches("without the filter the stranger", f.stranger, rds.DefaultPort)
			if _, err := os.Stat(f.pins); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("pins are left: %v", err)
			}
		})
	}
}

// The filter that stays when rdsd stops gets the list of the next one, an empty one too, but not
// that of a daemon in another network namespace.
func TestKernelFilterOfTheDaemonBefore(t *testing.T) {
	t.Parallel()
	f := newFiltered(t)
	f.configure("refuse", "auto", f.friend.IP4)
	f.rdsbpf("load", "--config", f.file)
	d := daemonOn(t, f.host, "--config", f.file)
	d.Line(d.Stderr, "ready")
	terminate(t, d)
	if out := f.rdsbpf("status", "--dir", f.pins); !strings.Contains(out, ", 1 prefix, ") {
		t.Errorf("after the end: %s", out)
	}
	// A daemon of another network namespace sees the pins, and leaves them alone.
	other := filepath.Join(rdstest.Dir(t), "other.toml")
	text := fmt.Sprintf("listen = ['%v']\nsocket = 'none'\ncontrol = 'none'\n[admission]\npins = '%s'\n", f.friend.IP4, f.pins)
	must(t, os.WriteFile(other, []byte(text), 0o600))
	d = daemonOn(t, f.friend, "--config", other)
	if line := d.Line(d.Stderr, "kernel filter not set"); !strings.Contains(line, "is of another network namespace") {
		t.Error(line)
	}
	d.Line(d.Stderr, "ready")
	terminate(t, d)
	if out := f.rdsbpf("status", "--dir", f.pins); !strings.Contains(out, ", 1 prefix, ") {
		t.Errorf("after a daemon of another namespace: %s", out)
	}
	f.configure("refuse", "auto")
	d = daemonOn(t, f.host, "--config", f.file)
	d.Line(d.Stderr, "ready")
	f.reaches("everybody is allowed, and the stranger", f.stranger, rds.DefaultPort)
	// A list that somebody else sets is not the daemon's, until that sets its own again.
	f.rdsbpf("allow", "--dir", f.pins, "10.1.0.0/16")
	if a := f.admission(); a.Kernel.Active || a.Kernel.Prefixes != 1 || !strings.Contains(a.Kernel.Why, "set by another process") {
		t.Errorf("%+v", a.Kernel)
	}
	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, "reloaded")
	if a := f.admission(); !a.Kernel.Active || a.Kernel.Prefixes != 0 {
		t.Errorf("%+v", a.Kernel)
	}
	terminate(t, d)
}

// An upgrade does not open the filter: no stranger gets in at any moment, and no peer is refused.
func TestKernelFilterStaysClosedDuringAnUpgrade(t *testing.T) {
	t.Parallel()
	f := newFiltered(t)
	list := []netip.Addr{f.friend.IP4} // and so many others that a list takes milliseconds to be written
	for i := range 5000 {
		list = append(list, netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)}))
	}
	f.configure("refuse", "require", list...)
	f.rdsbpf("load", "--config", f.file)
	d := daemonOn(t, f.host, "--config", f.file)
	d.Line(d.Stderr, "ready")
	var (
		work     sync.WaitGroup
		attempts [2]int
	)
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); work.Wait() })
	t.Cleanup(end)
	until := func(f func()) {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	until(func() {
		attempts[0]++
		f.reaches("the peer", f.friend, rds.DefaultPort)
	})
	until(func() { // as many as it can: the filter counts those that get through
		attempts[1] += 100
		f.stranger.Do(func() { knock(t, 100, f.stranger.IP4, f.host.IP4) })
	})
	d.Signal(upgradeSignal)
	d.Line(d.Stderr, "taken over")
	end()
	t.Logf("%d attempts of the peer, %d of the stranger", attempts[0], attempts[1])
	var pid int
	_, text, _ := strings.Cut(lastLine(d.Stderr.String(), "successor started"), `"successor": `)
	if _, err := fmt.Sscanf(text, "%d", &pid); err != nil {
		t.Fatalf("no successor: %s", d.Stderr)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if a := f.admission(); !a.Kernel.Active || a.Kernel.Prefixes != len(list) || a.Rejected != 0 || a.Kernel.Passed != uint64(attempts[0]) || a.Kernel.Refused < uint64(attempts[1]) {
		t.Errorf("rdsd has rejected %d, filter %+v", a.Rejected, a.Kernel)
	}
}

// Without pins rdsd says why there is no filter and does without, or does not start.
func TestKernelFilterThatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFiltered(t)
	f.configure("refuse", "auto", f.friend.IP4)
	d := daemonOn(t, f.host, "--config", f.file)
	if line := d.Line(d.Stderr, "no kernel filter"); !strings.Contains(line, "no pins in "+f.pins) {
		t.Errorf("%s", line)
	}
	d.Line(d.Stderr, "ready")
	if a := f.admission(); a.Kernel.Active || a.Kernel.Why != "no pins in "+f.pins {
		t.Errorf("%+v", a.Kernel)
	}
	terminate(t, d)
	f.configure("refuse", "require", f.friend.IP4)
	d = daemonOn(t, f.host, "--config", f.file)
	if status := d.Wait(); status != statusConfig || !strings.Contains(d.Stderr.String(), `admission.kernel is "require": no pins in `+f.pins) {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
}

// knock begins to connect to both ports, a number of times, and waits for no answer.
func knock(t *testing.T, count int, from, to netip.Addr) {
	for i := range count {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()})
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4(), Port: []int{16385, 18634}[i%2]})
		}
		if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connect %d: %v", i, err)
		}
		unix.Close(fd)
	}
}
