// Node is our end of an interoperability test: it executes the commands of
// package peer, read from standard input, on a node of package rds, or as an
// application of an rdsd; or on no RDS at all, for what other programs do.
package main

import (
	"errors"
	"flag"
	"io"
	"log"
	"net/netip"
	"os"

	"go.uber.org/zap"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
	"github.com/rds-go/rds/test/interop/rdspeer"
)

func main() {
	addr := flag.String("addr", "", "address to listen on from the start; none is no RDS, without -socket")
	paths := flag.Int("paths", 1, "TCP connections per peer, 1 or 8")
	socket := flag.String("socket", "", "attach to the rdsd there instead")
	flag.Parse()
	err := run(*addr, *paths, *socket)
	var dropped *rds.DroppedError // what a peer was not there to take
	switch {
	case errors.As(err, &dropped):
		log.Print("node: ", err)
	case err != nil:
		log.Fatal("node: ", err)
	}
}

func run(addr string, paths int, socket string) (err error) {
	commands := struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}
	if addr == "" && socket == "" {
		return peer.Serve(commands, peer.NoStack{})
	}
	p, err := open(addr, paths, socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return peer.Serve(commands, rdspeer.New(p))
}

func open(addr string, paths int, socket string) (rds.Provider, error) {
	if socket != "" {
		return rds.NewClient(rds.ClientConfig{Path: socket, Reconnect: true})
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return nil, err
	}
	logger, err := zap.NewDevelopment() // on standard error
	if err != nil {
		return nil, err
	}
	return rds.NewNode(rds.Config{Addresses: []netip.Addr{a}, Paths: paths, Logger: logger})
}
