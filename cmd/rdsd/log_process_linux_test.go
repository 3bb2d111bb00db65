//go:build live

package main

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
)

// maxFloodLog is what an hour of flood may make of log, and so what the seconds of a test
// may: 250 lines of each of a dozen kinds in the first window, and as many in each of the
// next ones.
const maxFloodLog = 512 << 10

// probes are 48-byte probes, each by a peer that claims to have restarted.
func probes(n int) (b []byte) {
	for range n {
		h := wire.Header{Dport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: uint16(1 + rand.IntN(9)), Generation: rand.Uint32()}.Put(&h.Extensions)
		b = h.AppendTo(b)
	}
	return b
}

// strangers connect to an address from so many others, and write what say returns.
func strangers(to string, count int, say func() []byte) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				from := &net.TCPAddr{IP: net.IPv4(127, 81, byte(i/250), byte(1+i%250))}
				c, err := (&net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}).Dial("tcp", to)
				if err != nil {
					continue // The host has no room for more for now.
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = c.Write(say())
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	wg.Wait()
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func answers(t *testing.T, port, from, to string) bool {
	t.Helper()
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsping"), "--provider", "node", "--port", port, "-c", "1", "-W", "10s", "-I", from, to)
	if status != 0 {
		t.Logf("rdsping: status %d, %s%s", status, stdout, stderr)
	}
	return status == 0
}

// Strangers send probes of new incarnations, garbage, and bad set-ups, from thousands of
// addresses: 137 MB of log in 3 s before lines were limited. The log stays small, says what
// it left out, and honest peers have answers.
func TestFloodMakesASmallLog(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	d := daemonAt(t, "--listen", "127.222.44.5", "--port", "17247", "--control", ctl, "--log-level", "debug", "--drain", "100ms")
	const tcp, xrc = "127.222.44.5:17247", "127.222.44.5:17246"
	rounds := 1
	if os.Getenv("RDS_LONG") != "" {
		rounds = 20
	}
	for range rounds {
		many := probes(5000)
		strangers(tcp, 40, func() []byte { return many })
		strangers(tcp, 600, func() []byte { return probes(1) })
		strangers(tcp, 300, func() []byte { return noise(48) })
		strangers(xrc, 300, func() []byte { return noise(48) })
		request := append([]byte("MPA ID Req Frame\x40\x01\x00\x10"), noise(16)...) // RFC 5044 section 7.1.1
		strangers(xrc, 300, func() []byte { return request })
	}
	if !answers(t, "17247", "127.222.44.4", "127.222.44.5") {
		t.Error("an honest peer has no answer")
	}
	left := counterOf(t, ctl, "log_left_out")
	d.Signal(syscall.SIGTERM)
	d.Wait()
	text := d.Stderr.String()
	t.Logf("%d bytes of log in %d lines, %d left out", len(text), strings.Count(text, "\n"), left)
	if len(text) > maxFloodLog {
		t.Errorf("%d bytes of log, at most %d are stated", len(text), maxFloodLog)
	}
	if left == 0 || !strings.Contains(text, "log lines left out") {
		t.Error("the log does not say what it left out")
	}
}

// mute starts a daemon whose standard error is the pipe that it returns, of 4 KiB, with the
// file of its settings.
func mute(t *testing.T, host, port, ctl, file string) (cmd *exec.Cmd, stderr *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, bin.Path("rdsd"), "--config", file, "--listen", host, "--port", port, "--control", ctl, "--drain", "100ms")
	cmd.Env = append(os.Environ(), "RDS_SOCKET=none")
	cmd.Stderr = w
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, r
}

// ready reads until a daemon is.
func ready(t *testing.T, stderr *os.File) {
	t.Helper()
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			return
		}
	}
	t.Fatalf("the daemon ended before it was ready: %v", lines.Err())
}

// mistakes are settings whose reading makes a line of 60 KB.
func mistakes() string { return strings.Repeat("x", 60_000) + " = 1\n" }

// end sends SIGTERM and wants status 0, in time.
func end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ends with %v", err)
	}
}

// A reader of standard error that has stopped holds up neither event loops nor the end.
// What is dropped is counted, and told when the reader goes on.
func TestStalledReaderOfStandardError(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	for _, goesOn := range []bool{true, false} {
		port, host := "17249", "127.222.45.5"
		if goesOn {
			port, host = "17251", "127.222.46.5"
		}
		ctl := filepath.Join(rdstest.Dir(t), "c.sock")
		file := write(t, "")
		cmd, stderr := mute(t, host, port, ctl, file)
		ready(t, stderr)
		must(t, os.WriteFile(file, []byte(mistakes()), 0o600))
		rdstest.Eventually(t, "a line is dropped", func() bool {
			must(t, cmd.Process.Signal(syscall.SIGHUP))
			return counterOf(t, ctl, "log_dropped") > 0
		})
		strangers(host+":"+port, 100, func() []byte { return probes(10) })
		from := host[:len(host)-1] + "4"
		if !answers(t, port, from, host) {
			t.Error("a peer has no answer while nobody reads the log")
		}
		if goesOn {
			told := make(chan bool, 1)
			go func() {
				lines := bufio.NewScanner(stderr)
				lines.Buffer(nil, 1<<20)
				for lines.Scan() {
					if strings.Contains(lines.Text(), "log lines dropped") {
						told <- true
					}
				}
				told <- false
			}()
			if !<-told {
				t.Error("the log does not say that lines were dropped")
			}
		}
		end(t, cmd)
	}
}

// A reader of standard error that has gone does not end the daemon by SIGPIPE.
func TestClosedStandardError(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	cmd, stderr := mute(t, "127.222.47.5", "17253", ctl, write(t, ""))
	ready(t, stderr)
	stderr.Close()
	for deadline := time.Now().Add(time.Minute); counterOf(t, ctl, "log_dropped") < 5; {
		if time.Now().After(deadline) {
			t.Fatal("no line was refused")
		}
		must(t, cmd.Process.Signal(syscall.SIGHUP))
		if !answers(t, "17253", "127.222.47.4", "127.222.47.5") {
			t.Fatal("a peer has no answer")
		}
	}
	end(t, cmd)
}
