// Package mpa is Marker PDU Aligned framing, the layer of iWARP that turns a
// TCP stream into records (RFC 5044), with the enhanced connection set-up of
// RFC 6581. It is pure: octets and parameters in, octets and decisions out; no
// socket, goroutine or clock. The caller owns the connection and its timers,
// for which the package only names the delays.
//
// # Set-up
//
// Each side sends one Frame. An Initiator makes the Request and judges the
// Reply; a Responder judges the Request, lets the upper layer decide, and makes
// the Reply. Both end in Settled: revision, CRC, markers, depths of RDMA Reads,
// and in peer-to-peer mode the kind of RTR, the first message that the
// initiator owes. A failure is an *Error or a *RejectedError; an *Error with a
// Code asks for a Terminate message of layer 2, type 0 and that code before
// the connection is closed.
//
// The responder emits nothing that is known to crash Linux's siw driver: its
// Replies have at most MaxReplyPrivate octets of private data, and to an
// enhanced Request they are of revision 2 with a whole Prefix, rejecting ones
// included. Reserved bits are always zero.
//
// # Records
//
// AppendFPDU makes an FPDU, a MarkerWriter one with markers inside, a Parser
// takes a stream of them apart, however it is split. The engine has a faster
// parser of its own; this one is its plain twin.
//
// # Concurrency and buffers
//
// A value is used by one goroutine at a time. Parameters are copied, but for
// Params.Private, which is read until the frame was made. What Settled, Request
// and RejectedError have of the peer's private data belongs to the machine that
// decoded it and stays valid; nothing is reused for another connection. A
// Parser lends its ULPDUs for the duration of the call.
package mpa
