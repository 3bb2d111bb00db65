//go:build live

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// terminal is a pseudo-terminal of this size: the end to read from, and the one for a process.
func terminal(t *testing.T, columns, rows int) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs pseudo-terminals (/dev/ptmx and /dev/pts): %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
	}
	rdstest.Must(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo-terminals (/dev/ptmx and /dev/pts): %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return screen, tty
}

// On a terminal each round is drawn over the one before, within the screen, with differences
// and rates.
func TestWatchRedraws(t *testing.T) {
	t.Parallel()
	const columns, rows = 60, 12
	screen, tty := terminal(t, columns, rows)
	n, ctl := started(t, 17431, rds.Config{})
	s := bind(t, n, "127.21.31.1:4000")
	cmd := exec.Command(bin.Path("rdsinfo"), "-c", "--watch=100ms", "--control", ctl)
	cmd.Stdout, cmd.Stderr = tty, tty
	rdstest.Must(t, cmd.Start())
	stop, stopped := context.WithCancel(context.Background())
	defer stopped()
	go func() { // a message of one's own is counted twice: sent and received
		for stop.Err() == nil {
			if s.Send(stop, s.LocalAddrPort(), []byte("x")) != nil {
				return
			}
			if m, err := s.Recv(stop); err == nil {
				m.Release()
			}
		}
	}()
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var text []byte
	b := make([]byte, 1<<16)
	for bytes.Count(text, []byte(home)) < 6 {
		k, err := screen.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		text = append(text, b[:k]...)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	go func() { _, _ = io.Copy(io.Discard, screen) }() // which lets it end
	rdstest.Must(t, cmd.Wait())
	if !bytes.HasPrefix(text, []byte(clearAll+home)) || bytes.Count(text, []byte(clearAll)) != 1 {
		t.Errorf("the screen is cleared each time: %q", text[:min(len(text), 100)])
	}
	rounds := strings.Split(string(text), home)[1:6]
	for i, r := range rounds {
		if !strings.HasSuffix(r, clearRest) || strings.Count(r, "\n") >= rows || !strings.Contains(r, " more lines)") {
			t.Errorf("round %d does not fit the screen: %q", i, r)
		}
		for line := range strings.Lines(r) {
			if line = strings.NewReplacer(clearLine, "", clearRest, "", "\r", "", "\n", "").Replace(line); len(line) > columns {
				t.Errorf("round %d: a line of %d columns: %q", i, len(line), line)
			}
		}
		if has := strings.Contains(r, "Diff       Rate/s"[:8]); has != (i > 0) {
			t.Errorf("round %d: differences %v: %q", i, has, r)
		}
	}
}

// Into a file rounds follow each other; the differences are there, too.
func TestWatchShowsRates(t *testing.T) {
	t.Parallel()
	n, ctl := started(t, 17432, rds.Config{})
	s := bind(t, n, "127.21.32.1:4000")
	p := clitest.Start(t, bin.Path("rdsinfo"), "-c", "--watch=50ms", "--control", ctl)
	p.Line(p.Stdout, "send_queued")
	batch := make([]rds.Outgoing, 17) // counted together
	for i := range batch {
		batch[i].To = s.LocalAddrPort()
	}
	if k, err := s.SendBatch(context.Background(), batch); k != len(batch) {
		t.Fatal(k, err)
	}
	if line := strings.Fields(p.Line(p.Stdout, "+17 ")); len(line) != 4 || line[0] != "recv_queued" && line[0] != "send_queued" || line[3] == "0" || line[3] == "-" {
		t.Errorf("%q", line)
	}
	p.Signal(os.Interrupt)
	if status := p.Wait(); status != 0 || strings.Contains(p.Stdout.String(), "\x1b") {
		t.Errorf("status %d, or control characters: %s%s", status, p.Stdout, p.Stderr)
	}
}
