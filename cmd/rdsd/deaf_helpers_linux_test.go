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
	most := fillAnswers(path, 1<<20) // the daemon ends this session, which has asked for one more
	for range 40 {
		fillAnswers(path, most)
	}
	fmt.Println("full with", most)
	select {} // until the test ends it
}

// held is what the process has of its sessions.
var held []any

// fillAnswers attaches, and asks n times, or until no answer comes. It returns how many came.
func fillAnswers(path string, n int) (came int) {
	u, err := net.DialUnix(ipc.Network, nil, &net.UnixAddr{Name: path, Net: ipc.Network})
	check := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	check(err)
	c := ipc.NewConn(u)
	check(c.Send(&ipc.Hello{Protocol: ipc.Protocol, Version: ipc.Version, Features: []string{ipc.FeatureMoves}}))
	var w ipc.Welcome
	files, err := c.ReceiveFiles(&w, ipc.WelcomeFiles)
	check(err)
	held = append(held, u, files) // nothing of it is closed
	for queued := 0; came < n; came++ {
		check(c.Send(&ipc.Request{ID: uint64(1_000_000 + came), Op: ipc.CallResolve}))
		before := queued
		for deadline := time.Now().Add(time.Second); queued == before; queued = inQueue(u) {
			if time.Now().After(deadline) {
				return came
			}
			<-time.After(100 * time.Microsecond)
		}
	}
	return came
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
