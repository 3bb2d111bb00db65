//go:build !live

package node

import (
	"testing"

	"github.com/rds-go/rds/rds/config"
)

// A node rests after each report, whoever asks.
func TestReportsRest(t *testing.T) {
	t.Parallel()
	n := newLoopLab(t).node(config.Node{})
	r := &n.reports
	for i := range 10 {
		rest := r.rest
		if _, err := n.Report(); err != nil {
			t.Fatal(err)
		}
		if begun := r.last.begun; begun.Before(rest) || !r.rest.After(begun) {
			t.Errorf("report %d began at %v, the node rests until %v and then until %v", i, begun, rest, r.rest)
		}
	}
}
