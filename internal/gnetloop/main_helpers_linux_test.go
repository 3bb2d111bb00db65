package gnetloop

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // Most of these tests wait for timers of the kernel. A flag of the command goes before.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
