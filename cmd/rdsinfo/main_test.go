package main

import (
	"os"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	if where := os.Getenv(echoEnv); where != "" {
		echo(where)
	}
	os.Exit(clitest.Main(m, &bin, "./cmd/rdsinfo", "./cmd/rdsd"))
}
