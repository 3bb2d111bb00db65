// Package peer is the program that both ends of an interoperability test run.
//
// A Server executes commands on an RDS stack: bind a socket, send a stream of
// messages, receive one and verify it, ping, list and destroy TCP connections.
// It also runs programs of its machine, with their output and input carried to
// and fro; where nothing else is wanted its stack is NoStack.
// The stack is behind the Stack interface: the guest program implements it on
// the kernel's sockets, the node program on this project's. A Client gives the
// commands, one line of JSON each, over whatever carries bytes: a virtio port
// or a pipe. Commands run side by side; each has a number by which the client
// asks for its progress or cancels it.
//
// # Streams
//
// Both ends make the messages of a Stream from its seed, sizes and bytes, so
// that the receiver verifies everything with no word from the sender: nothing
// lost, doubled, out of order or altered.
//
// # Concurrency
//
// A Client may be used by many goroutines. A Server runs every command in a
// goroutine of its own and waits for all of them before Serve returns.
//
// # Buffers
//
// Sockets own no buffer of their callers after a call returns.
//
// # Example
//
//	client := peer.NewClient(conn)
//	defer client.Close()
//	var bound peer.BindResult
//	err := client.Call(ctx, peer.OpBind, peer.BindArgs{Local: addr}, &bound)
package peer
