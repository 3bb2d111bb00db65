package node

import (
	"maps"
	"net"
	"slices"
)

// OwnSession is what this process has of XRC on the node, beside its sockets. It ends with the node.
type OwnSession interface{ Close() }

// AddSession has the node end a session. It fails when the node is ending, or leaves its work to another
// process.
func (n *Node) AddSession(s OwnSession) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.ending || n.Leaving.Load() {
		return net.ErrClosed
	}
	n.sessions[s] = struct{}{}
	return nil
}

// DropSession is for a session that has ended.
func (n *Node) DropSession(s OwnSession) {
	n.Mu.Lock()
	delete(n.sessions, s)
	n.Mu.Unlock()
}

// EndSessions ends the sessions that were added.
func (n *Node) EndSessions() {
	n.Mu.RLock()
	list := slices.Collect(maps.Keys(n.sessions))
	n.Mu.RUnlock()
	for _, s := range list {
		s.Close()
	}
}
