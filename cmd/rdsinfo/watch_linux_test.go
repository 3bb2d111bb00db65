//go:build live

package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

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
