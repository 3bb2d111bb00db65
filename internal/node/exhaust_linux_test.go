//go:build live

package node

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A host that runs out of descriptors cannot accept: it says so once, counts,
// and goes on when there are some again. It happens in a process of its own.
func TestOutOfDescriptors(t *testing.T) {
	if os.Getenv(rdstest.ExhaustEnv) == "" {
		t.Parallel()
		cmd := exec.Command(os.Args[0], "-test.run=^TestOutOfDescriptors$", "-test.v", "-test.count=1")
		cmd.Env = append(os.Environ(), rdstest.ExhaustEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestOutOfDescriptors") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	core, logs := observer.New(zap.InfoLevel)
	l := newLab(t)
	peer, late := l.Raw(), l.Raw()
	s := l.bindOne(config.Node{Logger: zap.New(core)})
	first := peer.Dial(s.LocalAddrPort().Addr())
	first.Put(first.Data(1000, 4000, []byte("before")))
	rdstest.Expect(t, s, "before")

	// Clients first, for they need descriptors of this process too.
	limit := syscall.Rlimit{Cur: 256, Max: 256}
	rdstest.Must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	var hogs []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		hogs = append(hogs, f)
	}
	_ = hogs[0].Close() // room for the client's end, none for ours
	r, err := late.TryDial(s.LocalAddrPort().Addr())
	rdstest.Must(t, err)
	rdstest.Eventually(t, "an accept error", func() bool { return rdstest.Counter(t, nodeOf(s), "tcp_accept_errors") > 0 })
	first.Put(first.Data(1000, 4000, []byte("meanwhile")))
	rdstest.Expect(t, s, "meanwhile")
	rdstest.MustSend(t, s, rdstest.AddrOf(peer.Addr, 1), []byte("and out"))
	if h, b := first.NextData(); string(b) != "and out" {
		t.Errorf("%+v", h)
	}
	for _, f := range hogs[1:] {
		_ = f.Close()
	}
	// One that was accepted with the last descriptor may have been lost again.
	for try := 0; ; try++ {
		_, _ = r.Write(r.Data(1000, 4000, []byte("after")))
		if rdstest.Holds(2*time.Second, func() bool { return s.Poll()&datagram.PollIn != 0 && halfOf(s).Queue.Count.Load() > 0 }) || try == 5 {
			break
		}
		r = late.Dial(s.LocalAddrPort().Addr())
	}
	rdstest.Expect(t, s, "after")
	if n := logs.FilterMessage("cannot accept").Len(); n != 1 {
		t.Errorf("told %d times", n)
	}
	if logs.FilterMessage("accepting again").Len() != 1 {
		t.Error("not told that it is over")
	}
}
