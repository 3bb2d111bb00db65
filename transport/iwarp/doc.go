// Package iwarp is iWARP in software: RDMAP over DDP over MPA over TCP (RFC 5040,
// 5041, 5044, 6581, 7306), with an API shaped like verbs. It speaks with every
// RNIC that follows the RFCs, and with Linux's siw and its deviations.
//
// A [Device] has event loops and a table of memory regions (package mr). A [PD]
// groups what may be used together. Memory is registered as an [MR]; a [QP] has
// a send and a receive queue whose requests complete in a [CQ]. [Device.Connect]
// and [Device.Listen] make a connection of two queue pairs, one on each side;
// it lives as long as the queue pair, and regions outlive it.
//
//	send queue    Send, Send with Invalidate, Write, Read, FetchAdd, CompareSwap, Immediate
//	receive queue memory for one message each, first in, first out
//
// # Ordering and completion
//
// Requests of one send queue start in order and complete in order. A Send or
// Write completes when TCP has it, which says nothing about the peer; a Read or
// atomic when its response is in memory. A message is delivered after all data
// written before it. What comes after a Read may be executed before it unless
// it has the Fence flag (RFC 5040 section 5.5).
//
// On a connection with shared receive queues ([SharedParams]) a Write or message
// completes when the peer has placed or refused it, and a bad key or queue costs its
// own request only. So does a bad local key, unless the region goes away in the
// middle of a message of which the peer has a part.
//
// # Errors
//
// Any other error ends the connection: the queue pair goes to StateError, the request
// at fault completes with its status and everything else as Flushed. If the
// error is in what the peer sent, it gets a Terminate that says so. Regions and
// other queue pairs are not touched.
//
// # Concurrency
//
// All methods are safe for concurrent use. Each queue pair receives on one event
// loop, and sends from whichever goroutine finds it idle; nothing waits for
// the network while it holds a lock or a section of a region.
//
// # Memory
//
// Memory named by a work request belongs to the queue pair until the request has
// completed, and is looked up in the table of regions each time it is touched.
// Received bytes are copied once, from the socket's buffer or by the system call
// itself, to where they belong.
package iwarp
