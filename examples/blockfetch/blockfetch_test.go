package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

var bin clitest.Bin

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &bin, "./examples/blockfetch", "./cmd/rdsd")) }

// lab has hosts in memory, in a bubble of testing/synctest.
func lab(t *testing.T, test func(t *testing.T, host func() *rds.Socket)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, net := rdstest.NewLoopLab(t), rdstest.NewOpNet()
		test(t, func() *rds.Socket {
			return rdstest.Bind(t, rdstest.Start(&l, rds.NewNode, net.With(t, rds.Config{})))
		})
	})
}

// serving is a server, and a function that ends it.
func serving(t *testing.T, s *rds.Socket) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, s) }()
	return func() {
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// Requests one at a time, and more at a time than the server handles.
func TestFetch(t *testing.T) {
	lab(t, func(t *testing.T, host func() *rds.Socket) {
		server := host()
		defer serving(t, server)()
		for _, outstanding := range []int{1, 128} {
			if err := fetch(context.Background(), host(), server.LocalAddrPort(), outstanding, outstanding); err != nil {
				t.Errorf("%d outstanding: %v", outstanding, err)
			}
		}
	})
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
	dir := rdstest.Dir(t)
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
	lab(t, func(t *testing.T, host func() *rds.Socket) {
		s := host()
		served := make(chan error, 1)
		go func() {
			v := &server{s: s, store: make([]byte, storeBlocks*blockSize)}
			served <- v.turn(context.Background())
		}()
		if err := fetch(context.Background(), host(), s.LocalAddrPort(), 1, 1); err == nil || !strings.Contains(err.Error(), "block 0 is not") {
			t.Errorf("%v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// What is no request costs nothing, and a request without memory gets no answer.
func TestServerIgnoresOthers(t *testing.T) {
	lab(t, func(t *testing.T, host func() *rds.Socket) {
		server, client := host(), host()
		defer serving(t, server)()
		for _, data := range []string{"", "8 octets", "something longer"} {
			rdstest.MustSend(t, client, server.LocalAddrPort(), []byte(data))
		}
		if err := fetch(context.Background(), client, server.LocalAddrPort(), 2, 2); err != nil {
			t.Error(err)
		}
	})
}
