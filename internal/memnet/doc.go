// Package memnet brings sockets in memory that behave as TCP's, for tests in bubbles of
// testing/synctest.
//
// A Network is a gnetloop.Network: transports that are given it (tcp.Options.Network, iwarp.Config.Network) connect to
// each other through it. Network.Dial and Network.Listen make sockets for tests that speak
// the wire by hand; they are net.Conn and net.Listener, with the methods of net.TCPConn that
// tests use.
//
// Whoever waits here waits for a channel, a sync.Cond or a timer, which are durably blocking:
// virtual time goes on. A Network has to be made in the bubble that uses it. No goroutine is
// left when all stacks are closed.
//
// # TCP
//
// Nothing is lost, and bytes are neither sent twice nor reordered. A socket has a send buffer,
// which keeps what the peer has not acknowledged, and a receive buffer, which bounds the
// window. What arrives in the receive buffer is acknowledged. As on Linux a reset throws away
// what the sender has not sent yet, not what the receiver's buffer has already; who closes a
// socket with unread bytes resets the connection, and so does who gets bytes after that.
// Acknowledgements travel as data do, so Options.Latency and Network.Hold delay them, too.
//
// All addresses can be listened on and dialed from. Addresses of 127.0.0.0/8 and ::1 are those
// of one host (gnetloop.Conn.Here); any other address is a host of its own.
//
// # What it lacks
//
// Keepalive, Silence and UserTimeout find nobody silent, unfinished messages
// (gnetloop.Beginner) have no limit, HalfOpen and HalfOpenEach do not bound anything, and
// Inherited, Sharing, Loops and Congestion mean nothing: tests of these use gnetloop's Engine.
package memnet
