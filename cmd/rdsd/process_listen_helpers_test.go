package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rds-go/rds/rds"
)

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
