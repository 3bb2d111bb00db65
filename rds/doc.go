// Package rds is Reliable Datagram Sockets for Go: sockets bound to (IP, port)
// that exchange datagrams of up to 1 MiB, each delivered once and in order, or
// its sender learns its fate. All sockets of a node share one connection per
// peer host, and the wire protocol is that of Linux RDS over TCP, so a peer
// may be a Linux kernel.
//
// # Getting a socket
//
// Listen binds one on the process's shared node. A program that wants several
// nodes, other settings or a clean end makes its own with NewNode and binds
// with Node.Bind. OpenKernel gives the same Socket over the kernel's AF_RDS.
//
// # Memory
//
// Send copies its payload before it returns; SendMessage with a Buffer does
// not. What Recv returns is the stack's memory: use it, then Release it.
// ReadFromAddrPort copies instead. Neither way allocates per message.
//
// # Concurrency
//
// Every exported method may be called from any goroutine. Close wakes those
// that block.
//
// # Errors
//
// Methods return *OpError; errors.Is finds this package's errors, the errno a
// Linux RDS socket would give (such as syscall.ENOBUFS), net.ErrClosed after
// Close and os.ErrDeadlineExceeded after a deadline.
package rds
