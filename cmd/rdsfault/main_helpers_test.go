package main

import (
	"os"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

var bin clitest.Bin

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &bin, "./cmd/rdsfault")) }
