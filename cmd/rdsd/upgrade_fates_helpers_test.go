package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// fatesEnv has this binary be an application that sends: it holds the path of a daemon's
// socket, the address to bind there, the address to send to, and the number of messages.
const fatesEnv = "RDSD_TEST_FATES"

// sendForFates sends messages, says so, and writes the fate of each.
func sendForFates(what string) {
	var path, addr, peer string
	var n uint64
	if _, err := fmt.Sscan(what, &path, &addr, &peer, &n); err != nil {
		panic(err)
	}
	c, err := rds.Dial(path)
	if err != nil {
		panic(err)
	}
	s, err := c.Bind(netip.MustParseAddrPort(addr))
	if err != nil {
		panic(err)
	}
	ctx, to := context.Background(), netip.MustParseAddrPort(peer)
	for i := range n {
		if err := s.SendMessage(ctx, &rds.Outgoing{To: to, Data: []byte("?"), Notify: true, Token: i}); err != nil {
			panic(err)
		}
	}
	fmt.Println("sent")
	for {
		m, err := s.Recv(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println("fate", m.Token, m.Status)
	}
}
