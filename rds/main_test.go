package rds

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) {
	os.Setenv("RDS_SOCKET", "none") // whatever this machine has
	if os.Getenv(exhaustEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(closing{m}, goleak.IgnoreCurrent())
}

// exhaustEnv marks a process that a test has started, and whose end nobody checks for leaks.
const exhaustEnv = "RDS_TEST_EXHAUST"

// closing closes the process's shared node, which otherwise lives as long as
// the process.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	shared.token <- struct{}{}
	defer func() { <-shared.token }()
	if shared.p != nil {
		_ = shared.p.Close()
	}
	return code
}

// nodes are the nodes of the sockets that labs have bound.
var nodes sync.Map

func nodeOf(s *Socket) *Node {
	n, _ := nodes.Load(s)
	return n.(*Node)
}

// counter reads one of a node's counters.
func counter(t testing.TB, n *Node, name string) uint64 {
	t.Helper()
	report, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}
