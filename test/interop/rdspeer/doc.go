// Package rdspeer puts a provider of package rds behind the interface that the
// commands of package peer are executed on.
//
// New wraps a provider and leaves it to the caller to close. What it makes is
// as safe for concurrent use as the provider. Received messages are copied and
// released at once, so that no buffer outlives a call.
//
//	node, err := rds.NewNode(rds.Config{})
//	if err != nil {
//		return err
//	}
//	defer node.Close()
//	return peer.Serve(conn, rdspeer.New(node))
package rdspeer
