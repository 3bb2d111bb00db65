// Echo client: sends words to an echo server and prints what comes back.
//
//	$ go run ./examples/echo/client 127.0.0.1:0 127.0.0.2:4000 Hello, 'datagram world'
//	Hello,
//	datagram world
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

func main() {
	provider := flag.String("provider", "", "node, rdsd or kernel (default: this host's rdsd, else node)")
	port := flag.Uint("port", rds.DefaultPort, "TCP port of RDS (node)")
	flag.Parse()
	local, err1 := netip.ParseAddrPort(flag.Arg(0)) // port 0 picks a free one
	server, err2 := netip.ParseAddrPort(flag.Arg(1))
	if err1 != nil || err2 != nil {
		log.Fatal("usage: client [-provider NAME] LOCAL:0 SERVER:port WORDS...")
	}
	if err := talk(*provider, uint16(*port), local, server, flag.Args()[2:]); err != nil {
		log.Fatal(err)
	}
}

func talk(provider string, port uint16, local, server netip.AddrPort, words []string) error {
	p, err := rds.Open(provider, rds.Config{Port: port})
	if err != nil {
		return err
	}
	defer p.Close()
	sock, err := p.Bind(local)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, w := range words { // no need to wait for one answer before the next
		if err := sock.Send(ctx, server, []byte(w)); err != nil {
			return err
		}
	}
	for range words {
		m, err := sock.Recv(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", m.Data)
		m.Release()
	}
	return nil
}
