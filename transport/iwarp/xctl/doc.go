// Package xctl is the extension of iWARP that gives every application a receive
// queue of its own on one connection, in the manner of XRC: many shared receive
// queues, named by number in the messages, none of which can hold up another or
// bring the connection down.
//
// A Send to shared receive queue n is an ordinary Send on DDP queue number
// 0x58000000+n ([SRQN.QN]). What the two ends have to tell each other beside the
// messages goes in control messages, with RDMAP's experimental opcode on queue
// [Control]: acknowledgements and limits per queue (CREDIT), refusals of single
// messages (NAK), the end of a refusal (RESUME), failed Reads and Writes (RDERR,
// WRERR), placed Writes (WRACK), signs of life (PING, PONG) and the state of
// queues (SRQ). Nothing of it is sent to a peer that has not agreed.
//
//   - [Block] is the offer and the answer in MPA's private data; [Agreed] is what
//     comes out.
//   - [Backlog] writes control messages, [Records] reads them.
//   - [Sender] and [Receiver] are the two ends of one queue on one connection,
//     and [Inbound] the Receivers of a connection. [WriteSender] and
//     [WriteReceiver] are those of its Writes. [ErrorRate] bounds what errors a
//     peer may make.
//
// All of it is pure: octets, headers and the time go in, records and decisions
// come out. Sending, placing and completing is the caller's.
//
// # Promises
//
// A message is delivered once, or its sender is told why not, as long as the
// connection lives. Messages of a queue are delivered in the order in which they
// began; those that are refused leave no gap behind them that would stop others.
// Queues share nothing but the connection. A peer that breaks the rules gets an
// error that has a cause for its Terminate (rdmap.CauseOf); one that keeps them
// and makes mistakes costs itself only.
//
// # Concurrency
//
// Nothing here locks or starts goroutines. Receivers and an Inbound belong to the
// goroutine that receives on the connection, Senders and a Backlog to whoever
// holds the connection's transmitter.
//
// # Buffers
//
// Encoders append to the caller's slice, decoders copy out. Nothing allocates
// per message: the rings of Senders and the lists of a Backlog keep their size,
// large rings until they are empty. What has to be known of a queue that nothing is
// sent to is a [Rest], of twelve octets. [Records] aliases the message until the iteration is over.
package xctl
