// Echo server: sends every datagram back to where it came from. One socket
// serves all clients, in order and without loss.
//
//	$ go run ./examples/echo/server 127.0.0.2:4000
//	echoing on 127.0.0.2:4000
//	14 bytes from 127.0.0.1:49377
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/rds-go/rds/rds"
)

func main() {
	provider := flag.String("provider", "", "node, rdsd or kernel (default: this host's rdsd, else node)")
	port := flag.Uint("port", rds.DefaultPort, "TCP port of RDS (node)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, flag.Arg(0), *provider, uint16(*port)); ctx.Err() == nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address, provider string, port uint16) error {
	addr, err := rds.ResolveAddr(ctx, address)
	if err != nil {
		return fmt.Errorf("usage: server HOST:port: %w", err)
	}
	p, err := rds.Open(provider, rds.Config{Port: port})
	if err != nil {
		return err
	}
	defer p.Close()
	sock, err := p.Bind(addr)
	if err != nil {
		return err
	}
	fmt.Println("echoing on", sock.LocalAddr())
	for {
		m, err := sock.Recv(ctx)
		if err != nil {
			return err
		}
		fmt.Println(len(m.Data), "bytes from", m.From)
		// Accepted, the memory is the stack's again; refused, it stays ours.
		if err := sock.SendMessage(ctx, &rds.Outgoing{To: m.From, Buffer: &m}); err != nil {
			m.Release()
			return err
		}
	}
}
