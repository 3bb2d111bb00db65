package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// sinkNum is the number of the first queue with a sink in tests, sinkOthers how many
// more there are, under the numbers that follow.
const (
	sinkNum    = 9
	sinkOthers = 3
)

// wait waits for an event.
func wait[T any](t testing.TB, c <-chan T, what string) {
	t.Helper()
	select {
	case <-c:
	case <-within(t).Done():
		t.Fatalf("no %s", what)
	}
}

// queueOfPort has the port of a frame say which queue it is for.
func queueOfPort(port uint16) uint32 { return uint32(port) }

// messageTo is a frame with a message of b to a queue.
func messageTo(queue uint32, b []byte) transport.Frame {
	return transport.Frame{Head: b, Port: uint16(queue)}
}

// frames sends frames, and returns how many octets of them were taken.
func (e *end) frames(list []transport.Frame) (octets int, err error) {
	e.t.Helper()
	e.qp.mu.Lock()
	skip := 0
	if s := e.qp.stream; s != nil {
		skip = int(s.shared.frames.open.offset)
	}
	e.qp.mu.Unlock()
	taken, err := e.qp.SendFrames(list, queueOfPort)
	if octets = taken.Octets; taken.Frames > 0 {
		octets -= skip
	}
	for i := range taken.Frames {
		octets += list[i].Size()
	}
	return octets, err
}

// direct sends one message of b, when nobody else is sending. It goes on with one that was
// taken in part.
func (e *end) direct(b []byte) (int, error) {
	e.t.Helper()
	e.quiet()
	return e.frames([]transport.Frame{messageTo(sinkNum, b)})
}

// quiet waits until nobody sends: a SendFrames that meets others takes nothing.
func (e *end) quiet() {
	e.t.Helper()
	if !holds(func() bool {
		e.qp.mu.Lock()
		defer e.qp.mu.Unlock()
		s := e.qp.stream
		return !s.sending && !s.shared.says && s.shared.backlog.Empty() // nor is about to
	}) {
		e.t.Error("somebody sends without end")
	}
}

func credit(delivered, limit uint32) xctl.Credit {
	return xctl.Credit{SRQ: sinkNum, Delivered: delivered, Limit: limit}
}
