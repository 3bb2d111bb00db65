package objects

import (
	"fmt"
	"slices"
)

// Kind says what a number names.
type Kind uint8

// The kinds of objects that events and peers name by number.
const (
	KindNone Kind = iota
	KindDevice
	KindInitiator
	KindTarget
	KindSRQ
	KindCQ
)

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// MarshalText returns the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes a name that MarshalText returned.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("xrc: no kind of object %q", text)
	}
	*k = Kind(i)
	return nil
}

var kindNames = [...]string{"none", "device", "initiator", "target", "srq", "cq"}

// The 24 bits of queue pair and shared receive queue numbers are divided, so
// that a number that got mixed up never names anything:
//
//	000001..0000FF  reserved
//	000100..1FFFFF  shared receive queues (SRQN)
//	200000..3EFFFF  those with a sink
//	3F0000..3FFFFF  by the port, 3F0000 + port: the one with a sink that the port's messages
//	                belong to, in Writes, reads and atomics
//	400000..7FFFFF  initiators
//	800000..FFFFFE  targets, FFFFFF is the control queue of the wire
//
// Completion queues are never named by a peer and have numbers of their own.
const (
	maxNumber      = 0xFFFFFF
	firstSRQ       = 0x000100
	firstSink      = 0x200000
	firstPort      = 0x3F0000
	firstInitiator = 0x400000
	firstTarget    = 0x800000
)

// HasSink tells whether a number is one of shared receive queues with a sink, which only the
// program that has them sends to.
func HasSink(number uint32) bool { return number >= firstSink && number < firstInitiator }

// PortQueue stands for the queue of the program that has a port of RDS. The other side finds
// out which one that is.
func PortQueue(port uint16) uint32 { return firstPort + uint32(port) }

// PortOf is the port that a number stands for, if it is one of PortQueue.
func PortOf(number uint32) (port uint16, ok bool) {
	return uint16(number), number >= firstPort && number < firstInitiator
}

// KindOf is the kind of object that a queue pair or shared receive queue number
// could name.
func KindOf(number uint32) Kind {
	switch {
	case number < firstSRQ, number >= maxNumber:
		return KindNone
	case number < firstInitiator:
		return KindSRQ
	case number < firstTarget:
		return KindInitiator
	}
	return KindTarget
}

// Ref names an object for good: numbers are used again, generations are not.
// A queue pair that is reset goes on under its number with a new generation.
type Ref struct {
	Kind       Kind   `json:"kind"`
	Number     uint32 `json:"number"`
	Generation uint32 `json:"generation"`
}

func (r Ref) String() string { return fmt.Sprintf("%v %06x.%d", r.Kind, r.Number, r.Generation) }
