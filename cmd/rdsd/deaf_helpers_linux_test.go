package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/ipc"
)

// deaf is for deafEnv.
func deaf(path string) {
	u, c := attached(path)
	most, full := 0, 0
	for waited := false; !waited; { // the daemon ends this session, which has asked for one more
		ask(c, most)
		if waited = !arrived(u, full+1); !waited {
			most, full = most+1, inQueue(u)
		}
	}
	for range 40 {
		u, c := attached(path)
		for i := range most {
			ask(c, i)
		}
		if !arrived(u, full) {
			check(fmt.Errorf("%d of %d octets of answers", inQueue(u), full))
		}
	}
	fmt.Println("full with", most)
	select {} // until the test ends it
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// held is what the process has of its sessions.
var held []any

func attached(path string) (*net.UnixConn, *ipc.Conn) {
	u, err := net.DialUnix(ipc.Network, nil, &net.UnixAddr{Name: path, Net: ipc.Network})
	check(err)
	c := ipc.NewConn(u)
	check(c.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version, Features: []string{ipc.FeatureMoves}}))
	var w ipc.Welcome
	files, err := c.ReceiveFiles(&w, ipc.WelcomeFiles)
	check(err)
	held = append(held, u, files) // nothing of it is closed
	return u, c
}

// ask makes a request whose answer is as long as those of all others.
func ask(c *ipc.Conn, i int) {
	check(c.Send(&ipc.Request{ID: uint64(1_000_000 + i), Op: ipc.CallResolve}))
}

// arrived waits a second for n octets that nobody reads.
func arrived(u *net.UnixConn, n int) bool {
	for deadline := time.Now().Add(time.Second); inQueue(u) < n; <-time.After(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// inQueue is how much a socket has received that was not read.
func inQueue(u *net.UnixConn) (n int) {
	rc, err := u.SyscallConn()
	if err == nil {
		err = rc.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	if err != nil {
		return 0
	}
	return n
}
