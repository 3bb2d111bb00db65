// Benchmarks is one process of a comparison: the server or the client of one
// workload over one peer, which is RDS or something else that a program might
// use. run.sh starts the pairs, collects the clients' result lines and has
// them printed as tables. Every process bounds its own lifetime.
//
//	benchmarks server PEER WORKLOAD [flags]
//	benchmarks client PEER WORKLOAD [flags]
//	benchmarks broker [flags]                  a NATS server
//	benchmarks report FILE...                  medians of result lines, as Markdown
//
// A peer is one line in the table of peers (main.go) and one file: sockPeer
// takes a function that attaches a side and opens numbered sockets, connPeer
// one that opens flows.
package main
