package ipc

import "time"

// Applications tell rdsd time limits by the time of day: monotonic clocks start where each
// process does, and containers may have their own. rdsd turns it into its own monotonic
// time when it takes the submission, so that a clock that is set matters in between only.

// MaxSockets bounds the sockets of a session.
const MaxSockets = 16384

// longestLimit bounds the time limits that applications tell rdsd: more does not fit.
const longestLimit = 100 * 365 * 24 * time.Hour

// TellLimit is a time limit as an application tells it: in nanoseconds since 1970.
func TellLimit(limit time.Time) int64 {
	return time.Now().Add(min(time.Until(limit), longestLimit)).UnixNano()
}

// HearLimit is a time limit as rdsd hears it.
func HearLimit(nanoseconds int64) time.Time {
	return time.Now().Add(time.Until(time.Unix(0, nanoseconds)))
}
