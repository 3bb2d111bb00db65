package node

import (
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/statefile"
)

// Inheritance is what a node takes over from another process when it is made.
type Inheritance struct {
	Generation uint32
	Begin      chan struct{} // closed when the node may begin to serve
	Sockets    *gnetloop.Inheritance
	StateFile  *statefile.File   // nil: the predecessor had none
	Number     uint64            // HighestNumber of the predecessor; 0: not known
	Restore    func(*Node) error // takes over addresses and connections
}
