package xctl

import "time"

// Defaults of an ErrorRate.
const (
	ErrorsPerSecond = 64
	ErrorsInAll     = 4096
)

// ErrorRate counts the errors that cost a message or an operation and not the
// connection. Answering them is the slow path, which must not be cheap to provoke
// (RFC 5042 section 6.4.4). NAKNotReady is none.
//
// The zero ErrorRate has no limits.
type ErrorRate struct {
	PerSecond int // 0: any number. Seconds begin with an error
	InAll     int // 0: any number

	second time.Time
	count  int // errors in the second that began at second
	all    int
	queues map[SRQN]struct{} // queues that AddQueue has counted in that second
}

// Add counts an error. It is false when that is one too many, and the connection
// ends (rdmap.CauseStreamCatastrophic).
func (e *ErrorRate) Add(now time.Time) bool {
	if e.all == 0 || now.Sub(e.second) >= time.Second {
		e.second, e.count = now, 0
		clear(e.queues)
	}
	e.count++
	e.all++
	return (e.PerSecond == 0 || e.count <= e.PerSecond) && (e.InAll == 0 || e.all <= e.InAll)
}

// AddQueue counts a message to a queue that does not exist: of each queue one in a
// second. A program that ends leaves many behind that others have sent to it, and
// they are no more trouble than if it had taken them; a peer that makes numbers up
// asks for many queues.
func (e *ErrorRate) AddQueue(n SRQN, now time.Time) bool {
	if e.PerSecond == 0 && e.InAll == 0 {
		return true
	}
	if _, counted := e.queues[n]; counted && now.Sub(e.second) < time.Second {
		return true
	}
	ok := e.Add(now)
	if e.queues == nil {
		e.queues = make(map[SRQN]struct{})
	}
	e.queues[n] = struct{}{}
	return ok
}
