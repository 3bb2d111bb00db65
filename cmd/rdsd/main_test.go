package main

import (
	"os"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	if what := os.Getenv(successorEnv); what != "" {
		failAsSuccessor(what)
	}
	if where := os.Getenv(thiefEnv); where != "" {
		thief(where)
	}
	if path := os.Getenv(serviceThiefEnv); path != "" {
		serviceThief(path)
	}
	if where := os.Getenv(pathThiefEnv); where != "" {
		pathThief(where)
	}
	if path := os.Getenv(deafEnv); path != "" {
		deaf(path)
	}
	if what := os.Getenv(fatesEnv); what != "" {
		sendForFates(what)
	}
	if where := os.Getenv(takeEnv); where != "" {
		take(where)
	}
	switch address := os.Getenv(listenEnv); {
	case address == "":
		os.Exit(clitest.Main(m, &bin, "./cmd/rdsd", "./cmd/rdsping", "./cmd/rdsinfo", "./cmd/rdsbpf"))
	case os.Getenv(listenTwiceEnv) != "":
		listenTwice(address)
	default:
		listenInALoop(address)
	}
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
