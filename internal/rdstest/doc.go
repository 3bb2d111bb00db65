// Package rdstest has what tests of several packages need: addresses that nobody else has,
// payloads that can be verified, a peer that speaks the wire by hand, and waiting for what
// must happen. It knows sockets, and neither nodes nor daemons: tests of package node use it,
// too.
//
// Its functions may be called from any goroutine but where they take a testing.TB, whose rules
// count.
package rdstest
