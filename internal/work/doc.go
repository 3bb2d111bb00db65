// Package work has the forms that work requests, receives and completions of XRC have in the
// memory that an application shares with its daemon (docs/IPC.md, "Queues of XRC"). An
// application is not trusted: what a record says is checked when it is read, but for keys and
// addresses, which are checked when the memory is touched.
package work
