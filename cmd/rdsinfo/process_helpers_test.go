//go:build live

package main

import (
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
)

func info(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsinfo"), args...)
}
