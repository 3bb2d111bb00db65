// Package daemon is what rdsd adds to a node: a Service that other processes attach to. Each
// has a session, with memory that both map, rings in it, and a Unix socket for calls;
// docs/IPC.md describes them. The session's sockets are the node's, whose Owner they are.
//
// A session's submissions and calls are taken under its lock. What arrives for it is put on the
// completion ring by the event loop that received it. A block of the receive arena is the
// application's from then until it is returned; pages go back when nothing refers to them.
//
// Bequeath and Succeed move a node and its service from one process to another.
package daemon
