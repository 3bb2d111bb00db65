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
	count  int // in the second
	all    int
}

// Add counts an error. It is false when that is one too many, and the connection
// ends (rdmap.CauseStreamCatastrophic).
func (e *ErrorRate) Add(now time.Time) bool {
	if e.all == 0 || now.Sub(e.second) >= time.Second {
		e.second, e.count = now, 0
	}
	e.count++
	e.all++
	return (e.PerSecond == 0 || e.count <= e.PerSecond) && (e.InAll == 0 || e.all <= e.InAll)
}
