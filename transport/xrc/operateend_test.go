//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport"
)

// An operation that is being posted when its link ends is lost: nobody knows that it was done.
func TestOperationBeingPostedIsLostWithItsLink(t *testing.T) {
	t.Parallel()
	var ends []transport.OpStatus
	op := &transport.Operation{Done: func(_ *transport.Operation, s transport.OpStatus) { ends = append(ends, s) }}
	l := new(link)
	l.ops.running = []*running{nil, {op: op}, nil}
	l.endOperations()
	if len(ends) != 1 || ends[0] != transport.OpLost {
		t.Errorf("ended with %v, want %v once", ends, transport.OpLost)
	}
}
