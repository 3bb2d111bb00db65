package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/rds-go/rds/rds"
)

// takeEnv has this binary be an application: it holds the path of a daemon's socket and
// the address to bind there.
const takeEnv = "RDS_TEST_TAKE"

// take writes the number of each message that it receives.
func take(where string) {
	path, addr, _ := strings.Cut(where, " ")
	c, err := rds.NewClient(rds.ClientConfig{Path: path, Reconnect: true})
	var s *rds.Socket
	if err == nil {
		s, err = c.Bind(netip.MustParseAddrPort(addr))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("bound")
	for {
		m, err := s.Recv(context.Background())
		if errors.Is(err, rds.ErrDaemonLost) {
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("number", binary.BigEndian.Uint64(m.Data))
		m.Release()
	}
}
