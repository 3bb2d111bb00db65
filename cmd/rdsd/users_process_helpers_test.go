package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
)

// greedyEnv has this binary be an application that takes all it gets: it holds the path of a
// daemon's socket, an address there, and the first of many peers.
const greedyEnv = "RDS_TEST_GREEDY"

// greedy binds sockets and sends to peers until it gets no more of either, says how many it
// has, and holds them.
func greedy(where string) {
	path, rest, _ := strings.Cut(where, " ")
	at, peer, _ := strings.Cut(rest, " ")
	c, err := rds.Dial(path)
	if err != nil {
		fmt.Println("refused", err)
		os.Exit(1)
	}
	here := netip.MustParseAddr(at)
	var socks []*rds.Socket
	for {
		s, err := c.Bind(netip.AddrPortFrom(here, 0))
		if err != nil {
			fmt.Printf("sockets %d: %v\n", len(socks), err)
			break
		}
		socks = append(socks, s)
	}
	to := netip.MustParseAddr(peer)
	for n := 0; ; n++ {
		if err := socks[0].TrySend(netip.AddrPortFrom(to, 9), []byte("x")); err != nil {
			fmt.Printf("peers %d: %v\n", n, err)
			break
		}
		to = to.Next()
	}
	select {}
}

// halfEnv has this binary connect to a daemon's socket again and again without a Hello.
const halfEnv = "RDS_TEST_HALF_ATTACH"

func halfAttach(path string) {
	var held []net.Conn
	for n := 0; ; n++ {
		c, err := net.Dial(ipc.Network, path)
		if err != nil {
			continue
		}
		if held = append(held, c); len(held) > 400 {
			held[0].Close()
			held = held[1:]
		}
		if n == 400 {
			fmt.Println("held")
		}
	}
}
