package gnetloop

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

func start(t testing.TB, c *Conn, r *recorder) {
	t.Helper()
	must(t, c.Start(r))
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
