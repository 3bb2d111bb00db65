// Command hello sends a message to an RDS socket and prints what its own socket receives:
//
//	hello 127.0.0.1:4000 127.0.0.1:4000 "Hello, myself"
//	hello 10.0.0.1:4000
//
// Its socket is one of the rdsd that runs on this host, or else of this process's own node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/rds-go/rds/rds"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: hello IP:PORT [TO-IP:PORT TEXT]")
		os.Exit(2)
	}
	if err := hello(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

// hello binds a socket, sends a message if there is one, and prints the first that comes.
func hello(at string, message []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := rds.Listen(at)
	if err != nil {
		return err
	}
	p, err := rds.Default() // what the socket is of
	if err != nil {
		return err
	}
	defer p.Close() // waits, for a bounded time, until everything is acknowledged
	if len(message) > 0 {
		to, err := rds.ParseAddr(message[0])
		if err != nil {
			return err
		}
		if err := s.Send(ctx, to, []byte(message[1])); err != nil {
			return err
		}
	}
	m, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release() // the memory goes back to the stack
	fmt.Printf("%s from %v\n", m.Data, m.From)
	return nil
}
