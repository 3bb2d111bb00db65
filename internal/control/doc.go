// Package control is the Unix socket on which a running node answers rdsinfo.
//
// Serve puts a snapshot function behind a socket file, Fetch reads one
// snapshot. The protocol is HTTP/1.1: GET /v1/info answers 200 and the snapshot
// as JSON, or 503 with {"error": "..."}; everything else is refused with an
// error of the same form. What a snapshot holds is not this package's business:
// package rds, which imports it, gives its Info.
//
// # Concurrency
//
// The snapshot function is called from many goroutines at a time and must not
// wait for the server's Close, which waits for it.
//
// # Limits
//
// A server holds at most maxClients connections, each for a bounded time with
// a bounded request; more clients wait in the listen queue. The socket file has
// mode 0660: its owner and group may look.
package control
