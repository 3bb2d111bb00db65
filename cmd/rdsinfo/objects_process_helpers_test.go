package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/rds-go/rds/rds"
)

// echoEnv has this binary be an application: it holds the path of a daemon's socket and the
// address of a socket there, which answers each message with itself.
const echoEnv = "RDS_TEST_ECHO"

func echo(where string) {
	path, at, _ := strings.Cut(where, " ")
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c, err := rds.Dial(path)
	if err != nil {
		fail(err)
	}
	s, err := c.Bind(netip.MustParseAddrPort(at))
	if err != nil {
		fail(err)
	}
	fmt.Println("bound")
	for {
		m, err := s.Recv(context.Background())
		if err != nil {
			fail(err)
		}
		if err := s.Send(context.Background(), m.From, m.Data); err != nil {
			fail(err)
		}
		m.Release()
	}
}
