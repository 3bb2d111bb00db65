//go:build live

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// Of 2,000 connections of strangers, with RDS_LONG=1 of 100,000, the daemon sees none behind a
// filter in the kernel, and peers have their answers.
func TestKernelKeepsStrangersFromTheDaemon(t *testing.T) {
	t.Parallel()
	count := 2000
	if os.Getenv("RDS_LONG") != "" {
		count = 100_000
	}
	for _, deny := range []ebpf.Deny{ebpf.Silent, ebpf.Refuse} {
		t.Run(string(deny), func(t *testing.T) {
			t.Parallel()
			here, there := netlab.Pair(t)
			there.Run("ip", "address", "add", "10.99.0.66/16", "dev", "eth0")
			ctl := filepath.Join(rdstest.Dir(t), "c.sock")
			d := daemonOn(t, here, "--listen", here.IP4.String(), "--control", ctl, "--allow", there.IP4.String())
			d.Line(d.Stderr, "ready")
			a, err := ebpf.LoadAdmission(ebpf.AdmissionOptions{Deny: deny, Netns: here.Netns(), Allow: []netip.Prefix{netip.PrefixFrom(there.IP4, 32)}})
			must(t, err)
			defer a.Close()
			begin := time.Now()
			there.Do(func() { knock(t, count, netip.MustParseAddr("10.99.0.66"), here.IP4) })
			took := time.Since(begin)
			s, err := a.Status()
			if err != nil || s.Refused < uint64(count) || s.Passed != 0 {
				t.Errorf("%d connects: %+v, %v", count, s, err)
			}
			info, err := rds.FetchInfo(context.Background(), ctl)
			if err != nil || info.Admission == nil || info.Admission.Rejected != 0 || len(info.Connections) != 0 {
				t.Errorf("the daemon has seen strangers: %+v, %d connections, %v", info.Admission, len(info.Connections), err)
			}
			ping := there.Args(bin.Path("rdsping"), "--provider", "node", "-c", "1", "-I", there.IP4.String(), here.IP4.String())
			if status, stdout, stderr := clitest.Run(t, ping[0], ping[1:]...); status != 0 {
				t.Errorf("a peer has no answer: %s%s", stdout, stderr)
			}
			t.Logf("%d connects in %v; %d refused", count, took, s.Refused)
			// Without the filter the daemon sees strangers.
			must(t, a.Close())
			var c net.Conn
			there.Do(func() {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 99, 0, 66)}, Timeout: 10 * time.Second}
				c, err = d.DialContext(t.Context(), "tcp", netip.AddrPortFrom(here.IP4, rds.DefaultPort).String())
			})
			if err == nil {
				defer c.Close() // one that is closed at once may never be accepted
			} else if !errors.Is(err, unix.ECONNRESET) { // rejected before it knew that it was connected
				t.Errorf("a stranger without the filter: %v", err)
			}
			netlab.Until(t, "the daemon rejects a stranger", func() bool {
				info, err := rds.FetchInfo(context.Background(), ctl)
				return err == nil && info.Admission != nil && info.Admission.Rejected > 0
			})
			terminate(t, d)
		})
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
