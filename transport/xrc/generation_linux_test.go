//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport"
)

// Each end of a link knows the incarnation of the other from the set-up, whichever
// dialed.
func TestGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnv(t, Options{Generation: 5}, Options{Generation: 6})
		a, b := e.Dial(t, e.Accepted(t))
		if x, y := a.Caps().Generation, b.Caps().Generation; x != 6 || y != 5 {
			t.Errorf("who dialed knows of %d, who was dialed of %d", x, y)
		}
		a.Close(transport.Abort)
		b.Close(transport.Abort)
	})
}
