package rds

import "github.com/rds-go/rds/internal/daemon"

// Service lets other processes use a node's sockets: applications attach to
// its Unix socket and share the node's connections. docs/IPC.md describes what
// goes on between the two.
//
// A Service trusts no application. What one does wrong ends its own session.
type Service struct{ s *daemon.Service }

// NewService starts serving n's sockets. Close it before the node.
func NewService(n *Node, cfg ServiceConfig) (*Service, error) {
	s, err := daemon.New(n.n, cfg)
	if err != nil {
		return nil, err
	}
	return &Service{s}, nil
}

// Reload replaces the limits on sessions and sockets, the budgets and the
// rules for ports. They count for what is attached or bound from then on; the
// socket, its mode and the logger stay as they are.
func (s *Service) Reload(cfg ServiceConfig) error { return s.s.Reload(cfg) }

// Sessions lists the attached applications, oldest first.
func (s *Service) Sessions() []SessionInfo { return s.s.Sessions() }

// Users lists what users have of their shares, by their numbers.
func (s *Service) Users() []UserInfo { return s.s.Users() }

// Drain ends the node's part in RDS so that nothing is lost, at most for the node's
// linger time: it refuses new sessions and new sockets, marks all ports congested, waits
// until everything that applications have sent is acknowledged, ends all links, having
// read each to its end, and hands over what has come. Applications with
// ClientConfig.Reconnect keep what they submit meanwhile for the next daemon. What
// applications sent that have ended since counts, too.
//
// What is left is logged for each peer, and its senders hear that it was dropped; the
// error then holds a *DroppedError. Close ends a Drain, and is what remains to be done.
func (s *Service) Drain() error { return s.s.Drain() }

// Close ends all sessions: their applications' calls fail, at once or when the
// operations that are under way have ended. What they have sent may take the node's
// linger time, unless Drain was called before; the error then holds a *DroppedError
// if something was dropped. Links whose operations do not end within 5 s more are cut.
func (s *Service) Close() error { return s.s.Close() }
