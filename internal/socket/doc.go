// Package socket is what sockets of all providers have in common: Socket, the methods of the
// API on any Endpoint; the checks of arguments; the Settings of a socket; and the Inbox, in which a node's sockets and
// those of rdsd's applications keep what they have received.
//
// All methods of a Socket and an Inbox may be called from any goroutine. Of a Queue the taking
// half is guarded by TakeMu, the filling half by Mu. A buffer in a Queue belongs to it until
// Fill passes it to a Message.
package socket
