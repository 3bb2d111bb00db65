package node

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) {
	os.Setenv("RDS_SOCKET", "none") // whatever this machine has
	if os.Getenv(exhaustEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// exhaustEnv marks a process that a test has started, and whose end nobody checks for leaks.
const exhaustEnv = "RDS_TEST_EXHAUST"
