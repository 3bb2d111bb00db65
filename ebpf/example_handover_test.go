package ebpf_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"

	"github.com/rds-go/rds/ebpf"
)

// A privileged program pins a handover; a server without capabilities then has all addresses of
// a prefix with one listening socket, and learns from each connection which of them it is to.
func ExampleHandover_Register() {
	const dir = "/sys/fs/bpf/rds/handover"
	h, err := ebpf.OpenHandover(dir)
	if errors.Is(err, os.ErrNotExist) {
		return // rdsbpf load handover has not been run: listen on each address
	}
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // its sockets cannot be registered
	ln, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close() // connections are refused from then on
	all := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/20")}
	if err := h.Register(all, 16385, ln.(*net.TCPListener)); err != nil {
		log.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println("connected to", c.LocalAddr())
}
