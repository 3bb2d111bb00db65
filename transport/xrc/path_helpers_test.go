package xrc

import (
	"github.com/rds-go/rds/xrc/objects"
)

// pair is path 0 of a pair of hosts, seen from one of them.
type pair struct {
	initiator, target objects.Ref
	suspended         bool
}

// path0 looks at the one path that a host has.
func (h *host) path0() (p pair, ok bool) {
	for _, peer := range h.allPeers() {
		x := peer.paths[0]
		if x == nil {
			continue
		}
		x.mu.Lock()
		if x.initiator != nil {
			p, ok = pair{x.initiator.Ref(), x.ref, x.target.Info().Suspended}, true
		}
		x.mu.Unlock()
	}
	return p, ok
}
