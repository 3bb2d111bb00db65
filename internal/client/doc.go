// Package client is the application's side of rdsd: a Client attaches to the daemon's Unix
// socket and maps the session's memory; its sockets submit messages to a ring there and take
// from another one what was received.
//
// All methods may be called from any goroutine. Memory of a received message is a block of the
// receive arena, which goes back to the daemon when its messages were released. When the daemon
// has gone, what was received stays readable, and a Client with Reconnect attaches to the next.
package client
