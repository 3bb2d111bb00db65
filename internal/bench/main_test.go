package bench

import (
	"testing"

	"go.uber.org/goleak"
)

// gnet's goroutine pool, which is started with the program, is not ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
