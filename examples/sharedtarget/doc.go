// Sharedtarget shows two workers of one service that share a target of XRC: a client sends to the queues of
// both through one initiator. Then one of them is killed, and the other goes on.
//
//	$ rdsd --listen 127.0.0.1 --socket here.sock & rdsd --listen 127.0.0.2 --socket there.sock &
//	$ go run ./examples/sharedtarget here.sock there.sock 127.0.0.2
//	worker 0: hello
//	worker 1: hello
//	worker 0 is killed
//	to worker 0: no such receive queue
//	worker 1: hello
//
// The workers are processes attached to the second rdsd. They open the same domain, that of a file which they inherit. The
// target in it is the daemon's, and lives as long as the service of one of them: it outlives the worker
// by whose service it was made.
package main
