package xrc

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/xrc/objects"
)

// idlerRole is the first argument of a process that makes objects, and nothing with them.
const idlerRole = "idler"

// Objects of one session, within its limits.
const (
	idleInitiators = 1000
	idleQueues     = 60
)

// beIdler is a process with sessions of the daemon at a path. What it makes it is told by a line of its standard input: a
// session more, initiators connected to service 7 of a host, or shared receive queues. Each line is about all its sessions.
func beIdler(args []string) error {
	to := netip.MustParseAddr(args[1])
	var sessions []*Session
	make := map[string]func() error{
		"session": func() error {
			s, err := openAt(args[0])
			sessions = append(sessions, s)
			return err
		},
		"initiators": func() error {
			for _, s := range sessions {
				pd, err := s.AllocPD()
				if err != nil {
					return err
				}
				cq, err := s.CreateCQ(2 * idleInitiators)
				if err != nil {
					return err
				}
				for range idleInitiators {
					if _, err := s.Connect(context.Background(), InitiatorAttr{PD: pd, CQ: cq, Remote: to, Service: 7, MaxSend: 1}); err != nil {
						return err
					}
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

// What an idle object costs the daemon, in bytes of its heap. Not parallel: it measures the memory of the process, where
// the daemon is; applications, and the daemon of the other host, are processes of their own.
func TestIdleObjectsAreSmall(t *testing.T) {
	const (
		targets = 4 * idleInitiators
		queues  = 17 * idleQueues
	)
	l := rdstest.NewLab(t)
	near, far := &hostProcess{path: t.TempDir() + "/s", addr: rdstest.NewAddr()}, newHost(t, &l)
	near.start(&l)
	f := domainFile(t)
	startWorker(t, far, f, 7)
	keeper := startWorker(t, far, f, 8)
	peer, other := startProcess(t, nil, idlerRole, near.path, far.addr.String()), startProcess(t, nil, idlerRole, far.path, far.addr.String())
	peer.hear("ready")
	other.hear("ready")
	// cost is the growth of the heap by each of n objects.
	cost := func(what string, n int, most int64, make func()) {
		t.Helper()
		before := rdstest.Heap()
		make()
		each := (rdstest.Heap() - before) / int64(n)
		if t.Logf("%s: %d bytes, at most %d", what, each, most); each > most {
			t.Errorf("%s: %d bytes, more than %d", what, each, most)
		}
	}
	cost("a target, connected and idle", targets, 1<<10, func() {
		for range targets / idleInitiators {
			peer.do("session")
		}
		peer.do("initiators")
	})
	all := far.node.Xrc.Objects().List(1 << 20)
	shared := slices.IndexFunc(all.Domains, func(d objects.DomainEntry) bool { return !d.Private })
	var numbers []uint32
	for i := range all.Targets {
		if x := &all.Targets[i]; x.Domain == all.Domains[shared].Tag {
			numbers = append(numbers, x.Ref.Number)
		}
	}
	if len(numbers) != targets {
		t.Fatalf("%d targets, want %d", len(numbers), targets)
	}
	cost("a registration", targets, 128, func() {
		for _, n := range numbers {
			keeper.do("register", n)
		}
	})
	for range queues / idleQueues {
		other.do("session")
	}
	cost("a shared receive queue", queues, 2<<10, func() { other.do("queues") })
}
