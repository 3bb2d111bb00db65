package xrc

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
)

// beClient is a process that connects to a service and sends to its queue until it is killed.
func beClient(s *Session, to netip.Addr, service uint64) error {
	i, send, err := senderTo(s, to, service)
	need(err)
	for n := 0; ; n++ {
		need(send())
		if n == 0 {
			fmt.Println("served", i.Target())
		}
	}
}

// senderTo connects to a service. What it returns sends a message to the service's queue and waits until it is there.
func senderTo(s *Session, to netip.Addr, service uint64) (i *Initiator, send func() error, err error) {
	pd, err := s.AllocPD()
	if err != nil {
		return nil, nil, err
	}
	cq, err := s.CreateCQ(16)
	if err != nil {
		return nil, nil, err
	}
	i, err = s.Connect(context.Background(), InitiatorAttr{PD: pd, CQ: cq, Remote: to, Service: service, MaxSend: 16})
	if err != nil {
		return nil, nil, err
	}
	var got [16]iwarp.Completion
	return i, func() error {
		if _, err := i.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: i.Queue().SRQN, Inline: []byte("hello")}); err != nil {
			return err
		}
		for k := 0; k == 0; k = cq.Poll(got[:]) {
			if err := cq.Wait(context.Background()); err != nil {
				return err
			}
		}
		if got[0].Status != iwarp.Success {
			return fmt.Errorf("%+v", got[0])
		}
		return nil
	}, nil
}

// hostRole is the first argument of a process that is a host.
const hostRole = "host"

// beHost is a process that is a host: a node at an address, and a daemon at the path of a socket, until its standard
// input ends. It says what it has for each line that it reads.
func beHost(args []string) error {
	port, err := strconv.ParseUint(args[2], 10, 16)
	need(err)
	n, err := node.New(config.Node{Wire: config.WireXRC, Serves: true, Addresses: []netip.Addr{netip.MustParseAddr(args[1])}, Port: uint16(port), Linger: -1, XRC: config.XRC{Patience: rdstest.Patience}})
	need(err)
	defer n.Close()
	svc, err := daemon.New(n, config.Service{Path: args[0]})
	need(err)
	defer svc.Close()
	fmt.Println("ready", args[1])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		s := n.Xrc.Objects().Stats()
		fmt.Println("has", s.Sessions, s.Initiators)
	}
	return nil
}
