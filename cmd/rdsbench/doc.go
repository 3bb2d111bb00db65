// Rdsbench measures RDS sockets against plain TCP doing the same work.
//
//	rdsbench                     the whole table, on loopback, in under a minute
//	rdsbench latency             ping-pong
//	rdsbench rate                small messages one way
//	rdsbench bandwidth           large messages one way
//	rdsbench mux                 n sockets to m sockets, request and reply
//	rdsbench stress              the same with every payload and number verified
//	rdsbench fair                latency beside an application that floods
//	rdsbench stopped             applications that stream while one of them is stopped
//	rdsbench attach              time and memory of attaching to a daemon
//	rdsbench sockets             time and memory of binding many sockets
//	rdsbench fetch               blocks by RDMA write and a message
//	rdsbench atomic              words changed by many, their sum verified
//	rdsbench connections         TCP connections and memory of many hosts, all to all
//	rdsbench xrc                 what RDS on XRC is worth, beside RDS over TCP and plain TCP
//	rdsbench rdma                verbs over software iWARP
//	rdsbench mr                  keys, invalidation and barriers of memory regions
//	rdsbench server              the passive side, on another host
//
// Sender and receiver are always two processes: without --server the client
// starts the other itself, and with --provider rdsd a daemon for each. Flags and examples: rdsbench help MODE. It exits
// with 0 after a good run, 1 after a failed one and 2 after wrong usage.
package main
