package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
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
