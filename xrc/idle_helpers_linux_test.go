package xrc

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
)

// idlerRole is the first argument of a process that makes objects, and nothing with them.
const idlerRole = "idler"

// Objects of one session, within its limits.
const (
	idleInitiators = 500
	idleQueues     = 60
)

// beIdler is a process with sessions of the daemon at a path. What it makes it is told by a line of its standard input: a
// session more, an initiator or many connected to service 7 of a host, or shared receive queues. Each line is about all its sessions.
func beIdler(args []string) error {
	to := netip.MustParseAddr(args[1])
	var sessions []*Session
	connect := func(s *Session, n int) error {
		pd, err := s.AllocPD()
		if err != nil {
			return err
		}
		cq, err := s.CreateCQ(2 * n)
		if err != nil {
			return err
		}
		for range n {
			if _, err := s.Connect(context.Background(), InitiatorAttr{PD: pd, CQ: cq, Remote: to, Service: 7, MaxSend: 1}); err != nil {
				return err
			}
		}
		return nil
	}
	make := map[string]func() error{
		"session": func() error {
			s, err := openAt(args[0])
			sessions = append(sessions, s)
			return err
		},
		"initiator": func() error { return connect(sessions[0], 1) },
		"initiators": func() error {
			for _, s := range sessions {
				if err := connect(s, idleInitiators); err != nil {
					return err
				}
			}
			return nil
		},
		"queues": func() error {
			for _, s := range sessions {
				dom, err := s.OpenDomain(nil, os.O_CREATE)
				if err != nil {
					return err
				}
				pd, err := s.AllocPD()
				if err != nil {
					return err
				}
				cq, err := s.CreateCQ(16)
				if err != nil {
					return err
				}
				for range idleQueues {
					if _, err := s.CreateSRQ(SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 1}); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	fmt.Println("ready", "")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("did", in.Text(), make[in.Text()]())
	}
	return nil
}
