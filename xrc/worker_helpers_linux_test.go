package xrc

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

const workerEnv = "RDS_TEST_XRC_WORKER"

func TestMain(m *testing.M) {
	os.Setenv("RDS_SOCKET", "none") // whatever this machine has
	if os.Getenv(workerEnv) != "" {
		need(beWorker(os.Args[1:]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// need ends a process of a test on an error.
func need(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// beWorker is a process that receives in the domain of the file with descriptor 3: args are the daemon's socket and
// a service id. Messages are numbered; it verifies that none of a sender is missing. What it is told on its
// standard input it does.
func beWorker(args []string) error {
	for role, be := range map[string]func(args []string) error{hostRole: beHost, idlerRole: beIdler, talkerRole: beTalker, registrantRole: beRegistrant, scriptRole: beScript, serverRole: beServer} {
		if args[0] == role {
			return be(args[1:])
		}
	}
	s, err := openAt(args[0])
	need(err)
	id, _ := strconv.ParseUint(args[1], 10, 64)
	if len(args) > 2 {
		return beClient(s, netip.MustParseAddr(args[2]), id)
	}
	const receives = 64
	p, err := outfit(s, os.NewFile(3, "domain"), receives, 2*receives, mr.LocalWrite)
	need(err)
	post := func(k uint64) error {
		_, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: k, SGE: []iwarp.SGE{p.mem.SGE(int(k)*slot, slot)}})
		return err
	}
	for k := range uint64(receives) {
		need(post(k))
	}
	if _, err := s.Advertise(ServiceAttr{ID: id, Domain: p.dom, SRQ: p.srq, Access: mr.RemoteWrite | mr.RemoteRead}); err != nil {
		return err
	}
	fmt.Println("ready", p.srq.Num())
	go obey(s, p.dom)
	var list [receives]iwarp.Completion
	next := uint64(0)
	for !deaf.Load() {
		need(p.cq.Wait(context.Background()))
		for _, c := range list[:p.cq.Poll(list[:])] {
			if c.Status != iwarp.Success {
				return fmt.Errorf("receive: %+v", c)
			}
			if n := binary.NativeEndian.Uint64(p.mem.Bytes()[c.ID*slot:]); n != next {
				return fmt.Errorf("PROMISE: message %d came, and %d was due", n, next)
			}
			next++
			need(post(c.ID))
		}
	}
	select {}
}

// deaf has the process take no more messages than the next ones.
var deaf atomic.Bool

// obey does what the standard input says, and says how it went.
func obey(s *Session, dom *Domain) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		f := strings.Fields(in.Text())
		n := uint64(0)
		if len(f) > 1 {
			n, _ = strconv.ParseUint(f[1], 10, 32)
		}
		var err error
		switch f[0] {
		case "register":
			_, err = s.Register(dom, uint32(n))
		case "unregister":
			err = s.Unregister(context.Background(), dom, uint32(n))
		case "event":
			var e Event
			if e, err = s.NextEvent(context.Background()); err == nil {
				fmt.Println("event", e.Kind, e.Object.Number)
				err = s.Ack(e)
			}
		case "stop":
			deaf.Store(true)
		}
		fmt.Println("did", f[0], err)
	}
}

// testEnds returns when the test's process has ended, and with it its end of the standard input.
func testEnds() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// openAt begins a session with the daemon at a path.
func openAt(path string) (*Session, error) {
	c, err := client.Dial(path)
	if err != nil {
		return nil, err
	}
	o, err := c.Objects()
	if err != nil {
		return nil, err
	}
	return Open(context.Background(), o)
}
