package rds

import "context"

// Bequeath prepares the node, and its service if it has one, for a process that takes
// their place: it ends all links so that nothing is lost, as Service.Drain does, and
// stops the work of all applications, which notice nothing but the pause. What connects
// meanwhile, peer or application, waits in the kernel. ctx, and the linger time, bound
// what it may take.
//
// The process that has the Legacy calls Succeed and Heir.Begin. This one then has to end
// without a call of Close, or, if that process has ended or given up, calls Return. After
// an error the node serves as before.
func (n *Node) Bequeath(ctx context.Context) (*Legacy, error) { return bequeath(ctx, n) }

// Return has the node serve again after Bequeath. What was queued meanwhile goes out on
// new links.
func (n *Node) Return() { giveBack(n) }
