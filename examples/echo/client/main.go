// Echo client: sends words to an echo server and prints what comes back.
//
//	$ go run ./examples/echo/client 127.0.0.1:0 127.0.0.2:4000 Hello, 'datagram world'
//	Hello,
//	datagram world
package main

import (
	"context"
	"errors"
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	local, err1 := rds.ResolveAddr(ctx, flag.Arg(0)) // port 0 picks a free one
	server, err2 := rds.ResolveAddr(ctx, flag.Arg(1))
	if err := errors.Join(err1, err2); err != nil {
		log.Fatal("usage: client [-provider NAME] LOCAL:0 SERVER:port WORDS...\n", err)
	}
	if err := talk(ctx, *provider, uint16(*port), local, server, flag.Args()[2:]); err != nil {
		log.Fatal(err)
	}
}

func talk(ctx context.Context, provider string, port uint16, local, server netip.AddrPort, words []string) error {
	p, err := rds.Open(provider, rds.Config{Port: port})
	if err != nil {
		return err
	}
	defer p.Close()
	sock, err := p.Bind(local)
	if err != nil {
		return err
	}
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
