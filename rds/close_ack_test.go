//go:build live

package rds

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// A node that is closed as soon as it has received a message has acknowledged the message:
// its sender does not wait for a node that is gone.
func TestNodeThatClosesHasAcknowledged(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire Wire) {
		l := newLab(t)
		from := l.bind(l.node(Config{Wire: wire}))
		for i := range uint64(50) {
			n, err := NewNode(Config{Port: l.Port, Wire: wire})
			rdstest.Must(t, err)
			to := l.bind(n)
			rdstest.Operate(t, from, to, i, Outgoing{Data: []byte("last")})
			rdstest.Expect(t, to, "last")
			rdstest.NoError(t, n.Close())
			rdstest.WantStatus(t, from, i, StatusSuccess)
		}
	})
}
