package rds

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func TestMain(m *testing.M) { rdstest.Main(closing{m}) }

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
	for _, c := range rdstest.Report(t, n).Counters {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}
