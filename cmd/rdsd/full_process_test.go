//go:build live

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// An application is stopped while messages come for it, more than its ring or its receive
// arena have room for; then its daemon is killed. What has ended with Success is in the
// application's memory, and is received once when it goes on.
func TestKilledDaemonOfAStoppedApplication(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	for _, c := range []struct {
		name, config   string
		messages, size int
	}{
		{"ring", "", 20_000, 64},
		{"arena", "[sessions]\nreceive_arena = 1048576\n", 60, 60_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := restarts{T: t, wire: "xrc"}
			r.configure(c.config)
			from, to := r.sides()
			r.start(from)
			r.start(to)
			r.attach(from)
			app := clitest.StartEnv(t, []string{takeEnv + "=" + to.path + " " + to.addr.String()}, os.Args[0])
			app.Line(app.Stdout, "bound")
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			number := uint64(0)
			send := func() {
				b := binary.BigEndian.AppendUint64(nil, number)
				must(t, from.sock.SendMessage(ctx, &rds.Outgoing{To: to.addr, Data: append(b, make([]byte, c.size-8)...), Notify: true, Token: number}))
				number++
			}
			send()
			app.Line(app.Stdout, "number 0")
			app.Signal(syscall.SIGSTOP)
			for range c.messages {
				send()
			}
			fates := make(map[uint64]rds.Status)
			fate := func() {
				m, err := from.sock.Recv(ctx)
				if err != nil {
					t.Fatalf("%v after %d fates", err, len(fates))
				}
				fates[m.Token] = m.Status
			}
			for len(fates) < int(number) {
				fate()
			}
			to.kill()
			app.Signal(syscall.SIGCONT)
			r.start(to)
			send()
			last := fmt.Sprintf("number %d", number-1)
			app.Line(app.Stdout, last)
			for len(fates) < int(number) {
				fate()
			}
			received := make(map[uint64]int)
			for line := range strings.Lines(app.Stdout.String()) {
				if text, ok := strings.CutPrefix(strings.TrimSpace(line), "number "); ok {
					n, err := strconv.ParseUint(text, 10, 64)
					must(t, err)
					received[n]++
				}
			}
			ends := make(map[rds.Status]int)
			for n := range number {
				ends[fates[n]]++
				if k := received[n]; k > 1 || k == 0 && fates[n] == rds.StatusSuccess {
					t.Errorf("message %d was received %d times, and its fate is %v", n, k, fates[n])
				}
			}
			t.Logf("%d messages, %d received, fates %v", number, len(received), ends)
			if ends[rds.StatusSuccess] != int(number) {
				t.Error("messages for an application that is alive have not ended with success")
			}
		})
	}
}
