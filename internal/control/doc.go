// Package control is the Unix socket on which a running node answers rdsinfo.
//
// Serve puts a snapshot function behind a socket file, Fetch reads one
// snapshot. A Config chooses more: the file's mode and group, a listener that
// somebody else made, further handlers. The protocol is HTTP/1.1: GET /v1/info
// answers 200 and the snapshot as JSON (?with=PART, once or more, adds parts), or 503 with {"error": "..."};
// everything else is refused with an error of the same form, but for the paths
// of Config.Extra. What a snapshot holds is not this package's business:
// package rds, which imports it, gives its Info.
//
// # Concurrency
//
// The snapshot function is called from many goroutines at a time and must not
// wait for the server's Close, which waits for it. The same holds for extra
// handlers.
//
// # Limits
//
// A server answers at most maxClients requests at a time, of them at most maxOfUser of one
// user, and a few more of root and of its own user. Further ones wait. At most maxWaiting
// connections wait, be it that their request has not come whole: of more, the oldest of the
// user who has most of them is closed. Each has a bounded time and a bounded request. Who
// may connect is decided by the socket file's mode and group alone.
package control
