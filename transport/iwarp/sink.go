package iwarp

import (
	"sync/atomic"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A shared receive queue with a sink (SRQConfig.Sink) has no memory posted: its messages
// go from the segment to the Sink of the connection that brings them. It is for programs
// that keep what they send until the peer has it, and would only copy it twice if queue
// pairs kept it too; on the wire it is a shared receive queue like any other. Messages to
// such queues are sent by SendFrames.
//
// A sink takes SinkEarly bytes before QP.SinkReady, and everything after.

// Sink takes what arrives for the shared receive queues with a sink, and hears of what
// SendFrames sends. All methods but Writable and Closed are called on the connection's
// event loop, without locks, and must not block.
type Sink interface {
	// Feed is given the next bytes of the messages and takes all of them. They are
	// valid during the call. An error ends the connection.
	Feed(b []byte) error
	// Queue says by which number the peer has named the queue of the messages that
	// follow, if it is another one than before. The first message follows it too.
	Queue(number uint32)
	// Home and State are what the peer has said with QP.TellHome and TellState.
	Home(tag, queue uint32)
	State(queue uint32, s QueueState)
	// Full is what the peer has said with QP.TellFull.
	Full(tag uint32, full bool)
	// Refused is what the peer has said with QP.Refuse, before FramesAcked counts
	// the messages.
	Refused(first uint64, count uint32, why Refusal)
	// Heard tells that the peer's sink has been told of the first n messages that we
	// have refused.
	Heard(n uint64)
	// Space returns where the next bytes belong, nil if nowhere in particular; last
	// tells that what follows it belongs elsewhere. Filled tells how many were put
	// there, and follows each Space that was not nil.
	Space() (dst []byte, last bool)
	Filled(n int)
	// Flush is the end of a burst.
	Flush()
	// Begun tells how many bytes the peer still has to send of the message at hand, 0 if it
	// has begun none, and the message's number. The connection ends when the peer does not
	// go on with it. Any goroutine may call it.
	Begun() (number uint64, left int)
	// Acked says that QP.FramesAcked has grown.
	Acked()
	// Writable follows a SendFrames that took less than all, and a Want that was
	// false. It may come from inside any call that posts or sends, and before that
	// SendFrames has returned.
	Writable()
	// Closed is the end of the queue pair: nothing of the above but a Writable that
	// has begun comes after it. It has a goroutine of its own.
	Closed(err error)
}

// SinkEarly is how many bytes of messages a sink is sent before QP.SinkReady, and the
// rest of a message that has begun.
const SinkEarly = 64 << 10

// sinkState is what a connection has on the messages that go to its Sink.
type sinkState struct {
	ready atomic.Bool // the program has called SinkReady

	// The event loop's.
	taking bool      // the sink has been given all that came before SinkReady
	fed    bool      // the sink has been given bytes since its last Flush
	unsaid uint32    // bytes of messages taken since the last CREDIT
	queue  xctl.SRQN // queue of the last message that was taken; 0: none was
	open   xctl.SRQN // queue of the message that has come in part; 0: none has
}

// SinkReady says that the sink takes all messages. Sink.Flush follows on the event loop.
func (q *QP) SinkReady() {
	q.mu.Lock()
	s := q.stream
	q.mu.Unlock()
	if s == nil || s.shared == nil || s.shared.params.Sink == nil {
		return
	}
	s.shared.sink.ready.Store(true)
	s.conn.Wake()
}

// find is the shared receive queue that takes messages by a number, nil if there is none.
func (x *shared) find(n xctl.SRQN) *SRQ {
	if x.params.Queues == nil {
		return nil
	}
	srq := x.params.Queues.Find(uint32(n))
	if srq != nil && srq.sink && x.params.Sink == nil {
		return nil // nothing on this connection takes the messages of such queues
	}
	return srq
}
