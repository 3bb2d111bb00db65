// Package netlink asks Linux over netlink for what has no other interface: the TCP connections
// of a network namespace and an end for one of them (inet_diag), and the queueing disciplines
// of an interface (rtnetlink). Each call is about the network namespace of its thread.
package netlink
