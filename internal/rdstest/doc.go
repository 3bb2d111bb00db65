// Package rdstest has what tests of several packages share: addresses that nobody else has,
// payloads that can be verified, labs of nodes, a peer that speaks the wire by hand, a relay,
// bubbles, waiting for what must happen, and TestMain. It imports neither internal/node nor
// internal/daemon, whose tests use it: their nodes and daemons are interfaces here.
//
// Its functions may be called from any goroutine but where they take a testing.TB, whose rules
// count.
package rdstest
