package transport

// Queues is how many receive queues a Sorter's side may have: FirstQueue, which is
// everybody's, and one for each application after it.
const (
	FirstQueue = 1
	Queues     = 4096
)

// Sorter is a Link on which each message names the receiving application: each
// application of a host has a receive queue of its own, under a number from FirstQueue
// to Queues, and the peer is told which ports are whose. It sends to FirstQueue what it
// knows no better. These calls are hints, and may come from any goroutine; they do not
// block. A link that has ended answers false.
type Sorter interface {
	Link
	// Home tells the peer that messages to port belong to a queue of ours.
	Home(port uint16, queue uint32) bool
	// Ready tells the peer whether the application of a queue takes messages now. If it
	// does not the peer keeps what it has for these ports, and sends everything else.
	Ready(queue uint32, ready bool) bool
	// Gone tells the peer that a queue's application has ended: its ports are unknown.
	Gone(queue uint32) bool
}

// SortListener is a Handler that hears of applications' queues. Both methods are called
// as Message is, Hold also outside of Begin and End.
type SortListener interface {
	// Queue says which of our queues the messages that follow came for, if it is not the
	// one before; FirstQueue to begin with.
	Queue(queue uint32)
	// Hold says that ports of the peer take no messages for now, or do again. It ends
	// with the link.
	Hold(ports []uint16, on bool)
}
