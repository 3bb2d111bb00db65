package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc"
)

// successorEnv has the test binary be a successor that fails: it says where, and what the
// daemon is.
const successorEnv = "RDSD_TEST_SUCCESSOR"

// failing is a successor that fails at a point.
type failing struct {
	Point, Path string
	Place       place
}

// The points, in the order of the exchange.
const (
	failsAsked = "killed when it has asked"
	failsState = "killed with the state"
	failsMade  = "killed when its node is made"
	failsReady = "killed when it is ready"
	failsGo    = "killed when it is told to go"
	failsError = "gives up"
	hangsState = "hangs with the state"
	hangsGo    = "hangs when it is told to go"
)

// failAsSuccessor does not return.
func failAsSuccessor(what string) {
	var f failing
	if err := json.Unmarshal([]byte(what), &f); err != nil {
		panic(err)
	}
	die := func(point string) {
		if f.Point == point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if f.Point == failsAsked {
		c, err := ipc.Dial(f.Path)
		if err != nil {
			panic(err)
		}
		if err := c.Send(&takeoverAskMessage{Version: takeoverVersion, Legacy: rds.LegacyVersion, Place: f.Place}); err != nil {
			panic(err)
		}
		die(failsAsked)
	}
	p, err := takeFrom(f.Path, f.Place)
	if err != nil {
		panic(err)
	}
	die(failsState)
	switch f.Point {
	case hangsState:
		select {}
	case failsError:
		p.refuse(fmt.Errorf("no memory"))
		os.Exit(0)
	case failsMade:
		set := defaults()
		set.Listen, set.Port, set.Wire = f.Place.Listen, f.Place.Port, f.Place.Wire
		set.Socket, set.Control = f.Place.Socket, none
		made, err := set.plan()
		if err == nil {
			_, err = rds.Succeed(made.node, made.service, p.legacy)
		}
		if err != nil {
			panic(err)
		}
		die(failsMade)
	}
	if err := p.c.Send(&takeoverStepMessage{Step: stepReady}); err != nil {
		panic(err)
	}
	die(failsReady)
	var m takeoverStepMessage
	if err := p.c.Receive(&m); err != nil || m.Step != stepGo {
		panic(fmt.Sprint(m, err))
	}
	die(failsGo)
	select {} // hangsGo
}

// takeEnv has this binary be an application: it holds the path of a daemon's socket and
// the address to bind there.
const takeEnv = "RDS_TEST_TAKE"

// take writes the number of each message that it receives.
func take(where string) {
	path, addr, _ := strings.Cut(where, " ")
	c, err := rds.NewClient(rds.ClientConfig{Path: path, Reconnect: true})
	var s *rds.Socket
	if err == nil {
		s, err = c.Bind(netip.MustParseAddrPort(addr))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("bound")
	for {
		m, err := s.Recv(context.Background())
		if errors.Is(err, rds.ErrDaemonLost) {
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("number", binary.BigEndian.Uint64(m.Data))
		m.Release()
	}
}

// listenEnv makes the test binary an application that listens at the address it has.
const listenEnv = "RDS_TEST_LISTEN"

// listenInALoop is the application: it calls ListenContext, waits until the socket fails,
// and calls it again, as long as the test lets it live.
func listenInALoop(address string) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		s, err := rds.ListenContext(ctx, address)
		cancel()
		if err != nil {
			fmt.Println("failed:", err)
			continue
		}
		fmt.Println("bound", s.LocalAddrPort())
		_, err = s.Recv(context.Background())
		fmt.Println("lost:", err)
		_ = s.Close()
	}
}

// listenTwiceEnv has the application close its provider once and open another one.
const listenTwiceEnv = "RDS_TEST_LISTEN_TWICE"

// listenTwice listens twice, with two providers.
func listenTwice(address string) {
	for range 2 {
		s, err := rds.Listen(address)
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println("bound", s.LocalAddrPort())
		p, err := rds.Default()
		if err == nil {
			err = p.Close()
		}
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
	}
	_, err := rds.Listen(address)
	fmt.Println("again", err)
	select {} // until the test ends it
}

// thiefEnv has this binary attach to a daemon and bind an address again and again, until it has
// the address: it holds the path of the daemon's socket and the address.
const thiefEnv = "RDS_TEST_THIEF"

func thief(where string) {
	path, at, _ := strings.Cut(where, " ")
	for n := 0; ; n++ {
		c, err := rds.Dial(path)
		if err != nil {
			continue
		}
		s, err := c.Bind(netip.MustParseAddrPort(at))
		if err != nil {
			if n == 0 {
				fmt.Println("tries:", err)
			}
			_ = c.Close()
			continue
		}
		fmt.Println("bound", s.LocalAddrPort())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		for n := 0; ; n++ {
			if _, err := s.Recv(ctx); err != nil {
				fmt.Println("received", n, err)
				break
			}
		}
		cancel()
		select {} // until the test ends it
	}
}

// serviceThiefEnv has this binary advertise a service id of XRC at a daemon again and again, until it
// has the id: it holds the path of the daemon's socket.
const serviceThiefEnv = "RDS_TEST_SERVICE_THIEF"

// stolenService is the id.
const stolenService = 0x1001

func serviceThief(path string) {
	for n := 0; ; n++ {
		c, err := rds.Dial(path)
		if err != nil {
			continue
		}
		if err = advertise(c, stolenService); err == nil {
			fmt.Println("advertised")
			select {} // until the test ends it
		}
		if n == 0 {
			fmt.Println("tries:", err)
		}
		_ = c.Close()
	}
}

// advertise has a client advertise a service id.
func advertise(c *rds.Client, id uint64) error {
	s, err := c.XRC(context.Background())
	if err != nil {
		return err
	}
	dom, err := s.OpenDomain(nil, os.O_CREATE)
	if err == nil {
		_, err = s.Advertise(xrc.ServiceAttr{ID: id, Domain: dom})
	}
	if err != nil {
		_ = s.Close()
	}
	return err
}

// pathThiefEnv has this binary open the domain of a file with a descriptor of O_PATH: it holds the
// path of a daemon's socket and the file.
const pathThiefEnv = "RDS_TEST_PATH_THIEF"

func pathThief(where string) {
	path, file, _ := strings.Cut(where, " ")
	const oPath = 0x200000 // O_PATH
	fd, err := syscall.Open(file, oPath, 0)
	if err != nil {
		fmt.Println("no descriptor:", err)
		os.Exit(1)
	}
	c, err := rds.Dial(path)
	if err == nil {
		var s *xrc.Session
		if s, err = c.XRC(context.Background()); err == nil {
			_, err = s.OpenDomain(os.NewFile(uintptr(fd), file), 0)
		}
	}
	fmt.Println("domain:", err)
	os.Exit(0)
}

// deafEnv has this binary attach 40 times to a daemon, whose socket it holds the path of, and read no answers: as many
// come as find room, and no more are asked for.
const deafEnv = "RDS_TEST_DEAF"

// fatesEnv has this binary be an application that sends: it holds the path of a daemon's
// socket, the address to bind there, the address to send to, and the number of messages.
const fatesEnv = "RDSD_TEST_FATES"

// closeEnv has it close its socket, which lingers for an hour, when it has sent.
const closeEnv = "RDSD_TEST_CLOSE"

// sendForFates sends messages, says so, and writes the fate of each.
func sendForFates(what string) {
	var path, addr, peer string
	var n uint64
	if _, err := fmt.Sscan(what, &path, &addr, &peer, &n); err != nil {
		panic(err)
	}
	c, err := rds.Dial(path)
	if err != nil {
		panic(err)
	}
	s, err := c.Bind(netip.MustParseAddrPort(addr))
	if err != nil {
		panic(err)
	}
	ctx, to := context.Background(), netip.MustParseAddrPort(peer)
	for i := range n {
		if err := s.SendMessage(ctx, &rds.Outgoing{To: to, Data: []byte("?"), Notify: true, Token: i}); err != nil {
			panic(err)
		}
	}
	fmt.Println("sent")
	if os.Getenv(closeEnv) != "" {
		s.SetLinger(time.Hour)
		fmt.Println("closed", s.Close())
	}
	for {
		m, err := s.Recv(ctx)
		if err != nil { // when the test has ended its daemon is ended first
			fmt.Println("ended", err)
			os.Exit(1)
		}
		fmt.Println("fate", m.Token, m.Status)
	}
}
