//go:build live

package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// TestDaemonIsKilled: every blocked call of an application fails at once when
// its daemon is killed, and the peers of a new one see that it is another.
func TestDaemonIsKilled(t *testing.T) {
	if os.Getenv(rdstest.RoleEnv) == "daemon" {
		beDaemon(strings.Fields(os.Getenv(rdstest.ArgEnv)))
	}
	l := newLab(t)
	dir, err := os.MkdirTemp("", "rds")
	rdstest.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	here := rdstest.NewAddr()
	peer := l.bind(l.node(config.Node{ReconnectMax: 20 * time.Millisecond}))
	start := func() *exec.Cmd { return startDaemon(t, path, here.String(), strconv.Itoa(int(l.Port))) }
	d := start()
	defer func() { _ = d.Process.Kill(); _ = d.Wait() }()

	c := dialed(t, path)
	sock := func() *socket.Socket { return bound(t, c, rdstest.AddrOf(here, 0)) }
	nobody := rdstest.AddrOf(rdstest.NewAddr(), 9) // nothing listens there
	full := func() *socket.Socket {
		s := sock()
		_ = s.SetWriteBuffer(64 << 10)
		for s.TrySend(nobody, make([]byte, 8<<10)) == nil {
		}
		return s
	}
	// waiting tells how many wait for a socket, and how many for the daemon's answer.
	waiting := func(q *socket.WaitQueue, n int32) func() bool { return func() bool { return q.N.Load() == n } }
	att := c.att // The client forgets it when it is lost.
	asking := func(n int) func() bool { return func() bool { return callsOf(att) == n } }
	first := sock()
	rdstest.MustSend(t, first, peer.LocalAddrPort(), []byte("first"))
	rdstest.Expect(t, peer, "first")
	full1, full2, full3, linger, reader, alone := full(), full(), full(), sock(), sock(), sock()
	linger.SetLinger(time.Hour)
	rdstest.MustSend(t, linger, nobody, []byte("never acknowledged"))
	ctx := rdstest.Background(t)
	bg := context.WithoutCancel(ctx)
	calls := map[string]func() error{
		"send":           func() error { return full1.Send(ctx, nobody, make([]byte, 8<<10)) },
		"send, for ever": func() error { return full3.Send(bg, nobody, make([]byte, 8<<10)) },
		"batch": func() error {
			_, err := full2.SendBatch(ctx, []datagram.Outgoing{{To: nobody, Data: make([]byte, 100)}, {To: nobody, Data: make([]byte, 100)}})
			return err
		},
		"recv":       func() error { _, err := alone.Recv(ctx); return err },
		"recv batch": func() error { _, err := reader.RecvBatch(bg, make([]datagram.Message, 4)); return err },
		"read":       func() error { _, _, err := reader.ReadFromAddrPort(make([]byte, 9)); return err },
		"close":      func() error { return linger.Close() },
	}
	stopped := map[string]func() error{ // these wait for an answer
		"bind":    func() error { _, err := c.Bind(rdstest.AddrOf(here, 0)); return err },
		"info":    func() error { _, err := c.Info(); return err },
		"resolve": func() error { return first.Send(ctx, rdstest.AddrOf(rdstest.NewAddr(), 9), nil) },
		"option":  func() error { return first.SetRecvErr(true) },
	}
	results := make(chan result, len(calls)+len(stopped))
	beginAll(t, results, calls,
		waiting(&clientHalfOf(full1).writers, 1), waiting(&clientHalfOf(full2).writers, 1), waiting(&clientHalfOf(full3).writers, 1),
		waiting(&clientHalfOf(alone).Readers, 1), waiting(&clientHalfOf(reader).Readers, 2), asking(1))
	standStill(t, d)
	beginAll(t, results, stopped, asking(1+len(stopped)))
	killed := time.Now()
	rdstest.Must(t, d.Process.Kill())
	allLost(t, ctx, results, len(calls)+len(stopped), killed)
	if err := first.TrySend(peer.LocalAddrPort(), nil); !errors.Is(err, datagram.ErrDaemonLost) {
		t.Errorf("a later call: %v", err)
	}
	_ = d.Wait()

	before := rdstest.Counter(t, nodeOf(peer), "peer_generations")
	d = start()
	again := bound(t, dialed(t, path), first.LocalAddrPort())
	rdstest.MustSend(t, again, peer.LocalAddrPort(), []byte("again"))
	rdstest.Expect(t, peer, "again")
	rdstest.Eventually(t, "a new generation", func() bool { return rdstest.Counter(t, nodeOf(peer), "peer_generations") == before+1 })
}

// callsOf is how many calls wait for the daemon's answer.
func callsOf(t *attachment) int {
	t.callMu.Lock()
	defer t.callMu.Unlock()
	return len(t.calls)
}

// result is how a call ended.
type result struct {
	name string
	err  error
	at   time.Time
}

// startDaemon starts a daemon.
func startDaemon(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	d := rdstest.Process("TestDaemonIsKilled", "daemon", args...)
	_, out := rdstest.Piped(t, d)
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("the daemon does not start: %v", err)
	}
	return d
}

// beginAll begins calls, which do not end.
func beginAll(t *testing.T, results chan result, calls map[string]func() error, wait ...func() bool) {
	t.Helper()
	for name, f := range calls {
		go func() {
			err := f()
			results <- result{name, err, time.Now()}
		}()
	}
	for _, waits := range wait {
		rdstest.Eventually(t, "all wait", func() bool { return len(results) > 0 || waits() })
	}
	if rdstest.Holds(50*time.Millisecond, func() bool { return len(results) > 0 }) {
		t.Fatalf("not blocked: %+v", <-results)
	}
}

// standStill stops a daemon.
func standStill(t *testing.T, d *exec.Cmd) {
	t.Helper()
	rdstest.Must(t, d.Process.Signal(syscall.SIGSTOP))
	rdstest.Eventually(t, "the daemon to stand still", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Process.Pid))
		return bytes.Contains(b, []byte(") T "))
	})
}

// allLost checks that n calls end by the loss of the daemon, which was killed then.
func allLost(t *testing.T, ctx context.Context, results <-chan result, n int, killed time.Time) {
	t.Helper()
	var after []time.Duration
	for range n {
		select {
		case r := <-results:
			if !errors.Is(r.err, datagram.ErrDaemonLost) {
				t.Errorf("%s: %v", r.name, r.err)
			}
			after = append(after, r.at.Sub(killed))
		case <-ctx.Done():
			t.Fatalf("%d calls still wait", n-len(after))
		}
	}
	slices.Sort(after)
	t.Logf("calls failed after %v", after)
	if after[len(after)-1] >= attachTimeout { // a Client knows no shorter time: what is faster follows the event
		t.Errorf("calls failed after %v", after)
	}
}

// beDaemon serves until it is killed.
func beDaemon(args []string) {
	port, _ := strconv.Atoi(args[2])
	n, err := node.New(config.Node{Addresses: []netip.Addr{netip.MustParseAddr(args[1])}, Port: uint16(port), ReconnectMax: 20 * time.Millisecond})
	if err == nil {
		_, err = daemon.New(n, config.Service{Path: args[0]})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}
