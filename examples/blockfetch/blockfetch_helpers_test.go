package main

import (
	"context"
	"errors"
	"os"
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
