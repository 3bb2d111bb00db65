//go:build live

package kernel

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// Calls whose contexts end all end, however many wait for the same descriptor, and
// one without such a context goes on.
func TestKernelCallsEndWithTheirContexts(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var calls calls
	read := func(ctx context.Context) error {
		return calls.bounded(ctx, c.SetReadDeadline, func() error {
			_, err := c.Read(make([]byte, 8))
			return err
		})
	}
	patient := make(chan error, 1)
	go func() { patient <- read(context.Background()) }()
	for round := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		const n = 4
		done := make(chan error, n)
		for range n {
			go func() { done <- read(ctx) }()
		}
		if round%2 == 0 {
			time.AfterFunc(time.Millisecond, cancel)
		} else {
			cancel()
		}
		for range n {
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("round %d: %v", round, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("round %d: a call goes on after the end of its context", round)
			}
		}
		cancel()
	}
	if _, err := c.WriteTo([]byte("hello"), c.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-patient:
		if err != nil {
			t.Fatalf("the call without a context: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call without a context did not get the datagram")
	}
	calls.setDeadline(c.SetReadDeadline, time.Now().Add(-time.Second))
	if err := read(context.Background()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("past the user's deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("after the end of the context: %v", err)
	}
}
