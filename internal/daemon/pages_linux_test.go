//go:build !live

package daemon

import (
	"math"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// What is reserved costs nothing of the share; what is touched does. Beyond the share the
// user's applications get no more, and go on with what they have; what others send them
// waits. All of it is there again when the memory is given back.
func TestTouchedPagesOfAUser(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, svc, path := served(t, l, config.Node{Linger: -1, SendBuffer: 64 << 20}, config.Service{Users: config.UserShares{Memory: 6 << 20}})
		c, other := dialed(t, path), dialed(t, path)
		here := rdstest.NewAddr()
		s, to := bound(t, c, rdstest.AddrOf(here, 5)), bound(t, other, rdstest.AddrOf(here, 6))
		if u := rdstest.SharesOf(svc); u.OverMemory || u.Memory == 0 || u.Memory > 1<<20 {
			t.Fatalf("two applications have touched %+v", u)
		}
		dead := rdstest.Nowhere()
		big := make([]byte, 200<<10)
		var sent int
		for {
			rdstest.SharesOf(svc) // looks
			if err := s.TrySend(dead, big); err != nil {
				rdstest.WantErr(t, "beyond the share", err, datagram.ErrWouldBlock, syscall.EAGAIN)
				break
			}
			if sent++; sent > 60 {
				t.Fatalf("%d messages, and %+v", sent, rdstest.SharesOf(svc))
			}
		}
		if u := rdstest.SharesOf(svc); !u.OverMemory {
			t.Fatalf("%d messages, and %+v", sent, u)
		}
		rdstest.MustSend(t, s, to.LocalAddrPort(), []byte("small"))
		rdstest.Expect(t, to, "small")
		_, err := c.Bind(rdstest.AddrOf(here, 7))
		rdstest.WantErr(t, "a socket", err, datagram.ErrQuota, syscall.EDQUOT)
		_, err = client.Dial(path)
		rdstest.WantErr(t, "a session", err, datagram.ErrQuota)
		if u := rdstest.SharesOf(svc); u.Memory > 9<<20 {
			t.Errorf("%+v", u)
		}
		rdstest.Must(t, s.CancelSentTo(netip.AddrPort{}))
		rdstest.Eventually(t, "the memory to be given back", func() bool { return !rdstest.SharesOf(svc).OverMemory })
		rdstest.MustSend(t, s, to.LocalAddrPort(), big)
		expectLen(t, to, len(big))
		bound(t, dialed(t, path), rdstest.AddrOf(here, 7))
	})
}

// The share follows the memory of the host, and that of the control groups around this
// process.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	meminfo := &fstest.MapFile{Data: []byte("MemFree:  1 kB\nMemTotal:        8000 kB\n")}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		root fstest.MapFS
		want int64
	}{
		"nothing is known":   {fstest.MapFS{}, math.MaxInt64},
		"no group":           {fstest.MapFS{"proc/meminfo": meminfo}, 8000 << 10},
		"version 2":          {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": text("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": text("max\n"), "sys/fs/cgroup/a/memory.max": text("4096000\n")}, 4096000},
		"more than there is": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": text("0::/\n"), "sys/fs/cgroup/memory.max": text("99999999999\n")}, 8000 << 10},
		"version 1":          {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": text("3:cpu:/x\n2:memory:/a\n"), "sys/fs/cgroup/memory/a/memory.limit_in_bytes": text("5000\n")}, 5000},
	} {
		if got := config.HostMemory(c.root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if n := config.HostMemory(os.DirFS("/")); n < 1<<20 || n == math.MaxInt64 {
		t.Errorf("this host has %d bytes", n)
	}
}
