package gnetloop

import (
	"testing"

	"go.uber.org/goleak"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
