package rdstest

import (
	"os"

	"go.uber.org/goleak"
)

// ExhaustEnv marks a process that a test has started, and whose end nobody checks for leaks.
const ExhaustEnv = "RDS_TEST_EXHAUST"

// Main runs the tests of a package, which may leave no goroutines. gnet starts a worker pool when
// the program starts; only what comes later is ours.
func Main(m goleak.TestingM) {
	os.Setenv("RDS_SOCKET", "none") // whatever this machine has
	if os.Getenv(ExhaustEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
