package rds

import (
	"os"

	"github.com/rds-go/rds/internal/daemon"
)

// LegacyVersion is the version of Legacy.State that this package leaves and takes. A process
// that is asked for another version leaves nothing.
const LegacyVersion = daemon.LegacyVersion

// Legacy is what a node and its service leave to the process that takes their place: a
// description, and descriptors of sockets and of shared memory. Whoever has a Legacy
// closes its Files.
type Legacy struct {
	State     []byte
	Files     []*os.File
	StateFile int // number in Files of the file Config.State, locked; -1: none
}

// Close closes the files.
func (l *Legacy) Close() { (*daemon.Legacy)(l).Close() }

// Heir is a node, and its service, that take the place of another process's. Both are
// complete and do nothing yet.
type Heir struct {
	Node    *Node
	Service *Service // nil: the predecessor had none

	h *daemon.Heir
}

// Succeed makes a node, and if the predecessor had one a service, of what Node.Bequeath of
// another process has left. The generation, the numbers of messages, the sockets of
// applications and the keys of their regions go on. cfg and service are as for NewNode
// and NewService, whose addresses, ports and wire have to be those of the predecessor;
// service counts for limits, and for applications that attach later. The files of l are
// closed.
//
// Nothing is accepted, dialed, sent or told to applications before Heir.Begin. After an
// error, and after a Heir that was not begun has ended with its process, the predecessor
// can go on.
func Succeed(cfg Config, service ServiceConfig, l *Legacy) (*Heir, error) {
	h, err := daemon.Succeed(cfg, service, (*daemon.Legacy)(l))
	if err != nil {
		return nil, err
	}
	out := &Heir{Node: &Node{h.Node}, h: h}
	if h.Service != nil {
		out.Service = &Service{h.Service}
	}
	return out, nil
}

// Begin has the node and the service serve. It cannot fail.
func (h *Heir) Begin() { h.h.Begin() }
