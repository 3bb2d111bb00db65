package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

var bin clitest.Bin

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &bin, "./examples/blockfetch", "./cmd/rdsd")) }

// host is a node with a socket on an address of its own.
func host(t *testing.T, ip string, port uint16) *rds.Socket {
	t.Helper()
	p, err := rds.Open(rds.ProviderNode, rds.Config{Port: port, Wire: rds.WireXRC})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s, err := p.Bind(netip.AddrPortFrom(netip.MustParseAddr(ip), 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Both in one process. There each buffer is used once: the race detector sees no
// order between processes' memory in that of requests and replies.
func TestFetch(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	for _, hosts := range [][]string{
		{"127.23.3.5", "127.23.3.1", "127.23.3.6"}, {"127.23.3.3", "127.23.3.4", "127.23.3.2"}, // clients on either side
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		server := host(t, hosts[0], 17306)
		served := make(chan error, 1)
		go func() { served <- serve(ctx, server) }()
		for i, outstanding := range []int{1, 128} {
			if err := fetch(ctx, host(t, hosts[1+i], 17306), server.LocalAddrPort(), outstanding, outstanding); err != nil {
				t.Errorf("%d outstanding: %v", outstanding, err)
			}
		}
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// Two processes, and buffers used again and again.
func TestCommands(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	args := []string{"--provider", "node", "--port", "17312"}
	server := clitest.Start(t, bin.Path("blockfetch"), append(args, "--listen", "127.23.6.2:4000")...)
	server.Line(server.Stdout, "serving 128 blocks of 8192 bytes on 127.23.6.2:4000")
	for _, from := range []string{"127.23.6.1", "127.23.6.3"} {
		status, stdout, stderr := clitest.Run(t, bin.Path("blockfetch"), append(args, "--connect", "127.23.6.2:4000", "--from", from, "--blocks", "2000")...)
		if status != 0 || !strings.HasPrefix(stdout, "2000 blocks in ") || !strings.Contains(stdout, "all verified") {
			t.Errorf("status %d, %q, %s", status, stdout, stderr)
		}
	}
	server.Signal(os.Interrupt)
	if status := server.Wait(); status != 0 {
		t.Errorf("server: status %d, %s", status, server.Stderr)
	}
	if status, _, stderr := clitest.Run(t, bin.Path("blockfetch"), args...); status == 0 || !strings.Contains(stderr, "usage") {
		t.Errorf("no flags: status %d, %q", status, stderr)
	}
}

// Both are applications of a daemon, which they find by themselves.
func TestThroughDaemon(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir, err := os.MkdirTemp("", "fetch") // short enough for a Unix socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i, host := range []string{"127.23.7.1", "127.23.7.2"} {
		env := []string{"RDS_PROVIDER=", "RDS_SOCKET=" + filepath.Join(dir, host)}
		daemon := clitest.StartEnv(t, env, bin.Path("rdsd"), "--listen", host, "--port", "17314", "--wire", "xrc", "--control", "none")
		daemon.Line(daemon.Stderr, "ready")
		if i == 0 {
			server := clitest.StartEnv(t, env, bin.Path("blockfetch"), "--listen", host+":4000")
			server.Line(server.Stdout, "serving 128 blocks of 8192 bytes on 127.23.7.1:4000")
			continue
		}
		client := clitest.StartEnv(t, env, bin.Path("blockfetch"), "--connect", "127.23.7.1:4000", "--from", host, "--blocks", "2000")
		if status := client.Wait(); status != 0 || !strings.Contains(client.Stdout.String(), "all verified") {
			t.Errorf("client: status %d, %s%s", status, client.Stdout, client.Stderr)
		}
	}
}

// A wrong block is noticed: here that of another store.
func TestFetchVerifies(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	s, client := host(t, "127.23.4.2", 17308), host(t, "127.23.4.1", 17308)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		v := &server{s: s, store: make([]byte, storeBlocks*blockSize)}
		served <- v.turn(ctx)
	}()
	if err := fetch(ctx, client, s.LocalAddrPort(), 1, 1); err == nil || !strings.Contains(err.Error(), "block 0 is not") {
		t.Errorf("%v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// What is no request costs nothing, and a request without memory gets no answer.
func TestServerIgnoresOthers(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	server, client := host(t, "127.23.5.2", 17310), host(t, "127.23.5.1", 17310)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server) }()
	for _, data := range []string{"", "8 octets", "something longer"} {
		if err := client.Send(ctx, server.LocalAddrPort(), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fetch(ctx, client, server.LocalAddrPort(), 2, 2); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
