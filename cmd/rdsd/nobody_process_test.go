//go:build live

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// An application dies with its daemon, and never comes back. What is sent to it on XRC
// waits for the grace time of the next daemon, which is killed within it, too, and is
// refused by the one after that: no message ends with Success.
func TestNobodyComesBack(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	r := restarts{T: t, wire: "xrc"}
	r.configure("grace = \"2s\"\n")
	from, to := r.sides()
	for _, s := range []*side{from, to} {
		r.start(s)
		r.attach(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := from.sock.Send(ctx, to.addr, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if _, err := to.sock.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	to.kill()
	_ = to.client.Close()
	from.daemon.Line(from.daemon.Stderr, "path down")
	const each = 50
	sent := uint64(0)
	send := func() {
		for range each {
			if err := from.sock.SendMessage(ctx, &rds.Outgoing{To: to.addr, Data: make([]byte, 1000), Notify: true, Token: sent}); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	send()
	r.start(to)
	for !errors.Is(from.sock.TrySend(to.addr, nil), rds.ErrCongested) { // until the next daemon's grace is known here
		if ctx.Err() != nil {
			t.Fatal("the port is not held back")
		}
		<-time.After(time.Millisecond)
	}
	to.kill()
	r.start(to)
	ends := map[rds.Status]int{}
	for range sent {
		m, err := from.sock.Recv(ctx)
		if err != nil {
			t.Fatalf("%v after %v", err, ends)
		}
		ends[m.Status]++
	}
	t.Log(ends)
	if ends[rds.StatusSuccess] > 0 || ends[rds.StatusRefused] == 0 {
		t.Errorf("fates %v", ends)
	}
}
