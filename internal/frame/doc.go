// Package frame cuts a byte stream into RDS messages.
//
// A Parser takes the stream in pieces of any size, as a socket yields them,
// and hands every whole message to its Sink. It keeps no more than a partial
// header and one partial payload between pieces.
//
// # Concurrency
//
// A Parser belongs to one goroutine at a time; only Remaining may be called by
// others.
//
// # Buffers
//
// A message that lies whole in a piece is handed over as an alias of that
// piece. One that arrives in parts is collected in a counted buffer of the
// parser's pool, which goes to the sink with the message. The buffer grows
// with what has arrived: a header that lies about its length costs at most
// stageMin bytes, or stageFactor times the bytes of payload that the stream has
// brought so far. Nothing is kept of a payload that is too long for the sink.
package frame
