package objects

import "fmt"

// EventKind says what happened; the values are those of ibv_event_type.
type EventKind uint8

// The asynchronous events. All of a target go to every session registered with
// it; those of other objects to the session that owns them.
const (
	EventCQError         EventKind = 0  // a completion found its queue full
	EventQPFatal         EventKind = 1  // the queue pair is in error, for a reason that no completion gives
	EventQPRequest       EventKind = 2  // the peer's request was invalid
	EventQPAccess        EventKind = 3  // the peer used a key, a queue or a right that it has not
	EventCommEstablished EventKind = 4  // first request to a target in StateRTR
	EventSQDrained       EventKind = 5  // StateSQD is reached
	EventDeviceFatal     EventKind = 8  // the daemon is gone: close and open anew
	EventSRQError        EventKind = 14 // the queue's memory is of no use
	EventSRQLimit        EventKind = 15 // fewer receives posted than the limit; one shot
	EventLastWQE         EventKind = 16 // the target takes no more receives from any queue

	// EventsLost stands for events that a full queue had no room for: whoever
	// reads it queries its objects. It is about no object.
	EventsLost EventKind = 255
)

var eventNames = map[EventKind]string{
	EventCQError: "cq-error", EventQPFatal: "qp-fatal", EventQPRequest: "qp-request-error", EventQPAccess: "qp-access-error",
	EventCommEstablished: "communication-established", EventSQDrained: "sq-drained",
	EventDeviceFatal: "device-fatal", EventSRQError: "srq-error",
	EventSRQLimit: "srq-limit-reached", EventLastWQE: "last-wqe-reached", EventsLost: "events-lost",
}

func (k EventKind) String() string {
	if s := eventNames[k]; s != "" {
		return s
	}
	return fmt.Sprintf("event-%d", uint8(k))
}

// affiliated tells whether a target may have such an event raised by its
// connection, and whether it ends it.
func (k EventKind) affiliated() (ok, fatal bool) {
	switch k {
	case EventQPFatal, EventQPRequest, EventQPAccess:
		return true, true
	case EventCommEstablished:
		return true, false
	}
	return false, false
}

// Event is what happened to an object: its kind says what the number in it is a
// number of. OFED 1.3 had a flag bit in the event's type for that.
type Event struct {
	Kind   EventKind
	Object Ref
	Lost   int // EventsLost: number of lost events

	serial uint64 // number by which the event is acknowledged
}
