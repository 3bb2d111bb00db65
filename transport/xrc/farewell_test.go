//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/xrc/objects"
)

// Farewell tells the peer of initiators and of targets that live, and leaves the connection to RDS.
func TestFarewellTellsOfWhatLives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		served, server := a.app("served"), b.app("server")
		served.serve(1, 4, 100)
		server.serve(2, 4, 100)
		ours, theirs := a.app("").connect(2, 2), server.connect(1, 1)
		a.Farewell()
		want := map[objects.Ref]bool{ours.Target(): true, theirs.Ref(): true}
		for len(want) > 0 {
			e := server.event()
			if e.Kind == objects.EventQPFatal && !want[e.Object] {
				t.Errorf("%+v", e)
			}
			if e.Kind == objects.EventQPFatal {
				delete(want, e.Object)
			}
		}
		if n := a.connections(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}
