package iwarp

import "github.com/rds-go/rds/transport/iwarp/rdmap"

// EventKind says what an Event is about; the names are those of ibv_event_type.
type EventKind uint8

// The asynchronous events.
const (
	EventCQError   EventKind = iota // a completion found its queue full
	EventQPFatal                    // the queue pair is in error for a reason no completion gives
	EventQPAccess                   // the peer used a key, or a right, that it has not
	EventQPRequest                  // the peer's request was malformed or not supported
)

// Event is something that happened to an object outside of its work requests.
type Event struct {
	Kind  EventKind
	QP    *QP
	CQ    *CQ
	Cause rdmap.Cause // QP events: what was wrong
}

func (d *Device) event(e Event) {
	if d.cfg.OnEvent != nil {
		d.cfg.OnEvent(e)
	}
}
