package xrc

import (
	"github.com/rds-go/rds/xrc/objects"
)

// ends waits for the two events by which a session hears that a channel's target has ended.
func (a *app) ends(ch *Channel, k objects.EventKind) {
	a.h.n.Helper()
	a.hears(k, ch.Target())
	a.hears(objects.EventLastWQE, ch.Target())
}
