package xrc

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/rds-go/rds/internal/client"
)

// talkers is how many processes of each host talk to as many of another host.
const talkers = 16

// talkerRole is the first argument of a process that is one of them.
const talkerRole = "talker"

// beTalker is a process with a socket. Once its standard input says so it sends a message to each socket of the talkers of
// another host, receives one of each, and sends one to service 7 of that host if that has one. Args are the daemon's
// socket, its own address and port, the other host, and whether there is the service.
func beTalker(args []string) error {
	c, err := client.Dial(args[0])
	need(err)
	s, err := c.Bind(netip.MustParseAddrPort(args[1]))
	need(err)
	to := netip.MustParseAddr(args[2])
	fmt.Println("ready", args[1])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := func() error {
			for k := range uint16(talkers) {
				if err := s.Send(context.Background(), netip.AddrPortFrom(to, 4000+k), []byte(args[1])); err != nil {
					return err
				}
			}
			heard := make(map[string]bool)
			for len(heard) < talkers {
				m, err := s.Recv(context.Background())
				if err != nil {
					return err
				}
				if from := m.From.String(); from != string(m.Data) || m.From.Addr() != to || heard[from] {
					return fmt.Errorf("%q of %v", m.Data, m.From)
				}
				heard[string(m.Data)] = true
				m.Release()
			}
			if args[3] != "true" {
				return nil
			}
			o, err := c.Objects()
			if err != nil {
				return err
			}
			x, err := Open(context.Background(), o)
			if err != nil {
				return err
			}
			_, send, err := senderTo(x, to, 7)
			if err != nil {
				return err
			}
			return send()
		}()
		fmt.Println("did talk", err)
	}
	return nil
}
