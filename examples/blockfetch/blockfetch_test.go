//go:build !live

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// bubble has hosts in memory, in a bubble of testing/synctest.
func bubble(t *testing.T, test func(t *testing.T, host func() *rds.Socket)) {
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
	bubble(t, func(t *testing.T, host func() *rds.Socket) {
		server := host()
		defer serving(t, server)()
		for _, outstanding := range []int{1, 128} {
			if err := fetch(context.Background(), host(), server.LocalAddrPort(), outstanding, outstanding); err != nil {
				t.Errorf("%d outstanding: %v", outstanding, err)
			}
		}
	})
}

// A wrong block is noticed: here that of another store.
func TestFetchVerifies(t *testing.T) {
	bubble(t, func(t *testing.T, host func() *rds.Socket) {
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
	bubble(t, func(t *testing.T, host func() *rds.Socket) {
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
