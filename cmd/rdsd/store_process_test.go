//go:build live

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// manager is what a service manager does with the descriptors of a service.
type manager struct {
	*testing.T
	path string

	mu     sync.Mutex
	names  []string      // guarded by mu
	files  []*os.File    // guarded by mu
	states []string      // guarded by mu
	news   chan struct{} // guarded by mu; closed by the next notification
}

func newManager(t *testing.T, dir string) *manager {
	t.Helper()
	m := &manager{T: t, path: filepath.Join(dir, "notify"), news: make(chan struct{})}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			b, oob := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
			n, oobn, _, _, err := l.ReadMsgUnix(b, oob)
			if err != nil {
				return
			}
			m.heard(string(b[:n]), oob[:oobn])
		}
	}()
	return m
}

func (m *manager) heard(state string, oob []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states = append(m.states, state)
	defer func(news chan struct{}) { close(news) }(m.news)
	m.news = make(chan struct{})
	_, name, _ := strings.Cut(state, "FDNAME=")
	switch {
	case strings.HasPrefix(state, "FDSTORE=1\nFDPOLL=0\n"):
		msgs, _ := syscall.ParseSocketControlMessage(oob)
		if len(msgs) != 1 {
			m.Errorf("%q without a descriptor", state)
			return
		}
		fds, _ := syscall.ParseUnixRights(&msgs[0])
		m.names, m.files = append(m.names, name), append(m.files, os.NewFile(uintptr(fds[0]), name))
	case strings.HasPrefix(state, "FDSTOREREMOVE=1\n"):
		for i := slices.Index(m.names, name); i >= 0; i = slices.Index(m.names, name) {
			_ = m.files[i].Close()
			m.names, m.files = slices.Delete(m.names, i, i+1), slices.Delete(m.files, i, i+1)
		}
	}
}

// start starts the service with what is in the store.
func (m *manager) start(args ...string) *clitest.Process {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	env := []string{"RDS_SOCKET=none", "RDS_CONTROL=none", "NOTIFY_SOCKET=" + m.path, "FDSTORE=512"}
	script := `exec "$0" "$@"`
	if len(m.files) > 0 {
		env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(m.files)), "LISTEN_FDNAMES="+strings.Join(m.names, ":"))
		script = `LISTEN_PID=$$ exec "$0" "$@"`
	}
	p := clitest.StartCommand(m.T, func(cmd *exec.Cmd) {
		cmd.Env, cmd.ExtraFiles = append(cmd.Env, env...), m.files
	}, "/bin/sh", append([]string{"-c", script, bin.Path("rdsd")}, args...)...)
	p.Line(p.Stderr, "ready")
	return p
}

// stored is how many descriptors are in the store.
func (m *manager) stored() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.files)
}

// until waits until a condition holds, which is asked with m.mu held.
func (m *manager) until(what string, ok func() bool) {
	m.Helper()
	late := time.After(rdstest.Patience)
	m.mu.Lock()
	defer m.mu.Unlock()
	for !ok() {
		news := m.news
		m.mu.Unlock()
		select {
		case <-news:
			m.mu.Lock()
		case <-late:
			m.mu.Lock()
			m.Fatalf("not in time: %s: %q", what, m.names)
		}
	}
}

// A daemon that the service manager restarts leaves all in the descriptor store: its
// applications, which do not attach again, keep their sockets and regions, nobody's
// connect is refused, and nothing is lost. Other settings begin anew.
func TestRestartWithDescriptorStore(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	s := u.sides[0]
	other := u.ends[1]
	m := newManager(t, u.dir)
	path := filepath.Join(u.dir, "kept.sock")
	addr := netip.AddrPortFrom(netip.MustParseAddr("127.22.32.5"), 4000)
	args := []string{"--listen", addr.Addr().String(), "--port", fmt.Sprint(u.port), "--wire", "xrc", "--socket", path, "--control", "none"}
	d := m.start(args...)
	sock := bind(t, clientOf(t, path), addr.String())
	memory, err := sock.AllocMemory(4096)
	must(t, err)
	cookie, err := sock.GetMR(memory.B, rds.MRReadWrite)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := other.operator.AllocMemory(8)
	must(t, err)
	for round := range 4 {
		copy(out.B, fmt.Sprintf("round %02d", round))
		if err := other.operator.SendMessage(ctx, &rds.Outgoing{
			To: addr, Data: []byte{byte(round)}, Notify: true, RDMA: &rds.RDMA{Cookie: cookie, Local: [][]byte{out.B}, Write: true},
		}); err != nil {
			t.Fatal(err)
		}
		got, err := sock.Recv(ctx)
		if err != nil || len(got.Data) != 1 || got.Data[0] != byte(round) || string(memory.B[:8]) != fmt.Sprintf("round %02d", round) {
			t.Fatalf("round %d: %v, %v, %q", round, got.Data, err, memory.B[:8])
		}
		got.Release()
		if fate, err := other.operator.Recv(ctx); err != nil || fate.Status != rds.StatusSuccess {
			t.Fatalf("round %d: %v, %v", round, fate.Status, err)
		}
		d.Signal(syscall.SIGTERM)
		if status := d.Wait(); status != 0 || !strings.Contains(d.Stderr.String(), "all is left in the descriptor store") {
			t.Fatalf("status %d: %s", status, d.Stderr)
		}
		m.until("all is in the store", func() bool { return slices.Contains(m.names, storeHead) }) // the head comes last
		if n := m.stored(); n < 8 {
			t.Fatalf("%d descriptors in the store", n)
		}
		sent := make(chan error, 1) // the send waits, on the ring or for the answer to a call
		go func() { sent <- sock.Send(ctx, addr, []byte("to myself")) }()
		tcp, err := net.DialTimeout("tcp", netip.AddrPortFrom(addr.Addr(), uint16(u.port)^1).String(), 10*time.Second)
		if err != nil {
			t.Fatalf("between two daemons: %v", err)
		}
		tcp.Close()
		d = m.start(args...)
		m.until("the store is empty", func() bool { return len(m.files) == 0 })
		got, err = sock.Recv(ctx)
		if err != nil || string(got.Data) != "to myself" {
			t.Fatalf("round %d: %q, %v", round, got.Data, err)
		}
		got.Release()
		if err := <-sent; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	m.until("all is in the store", func() bool { return slices.Contains(m.names, storeHead) })
	m.start(append(args, "--listen", s.addr.Addr().Next().Next().Next().String())...) // that address is another daemon's
	if _, err := sock.Recv(ctx); err == nil {
		t.Error("a session goes on in a daemon with other settings")
	}
}
