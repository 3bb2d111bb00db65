package setup

import "encoding/binary"

const (
	resolveLen  = 24
	resolvedLen = 40
)

// Resolve asks for the shared receive queue behind a service.
//
//	8   4 ID
//	12  4 0
//	16  8 service
type Resolve struct {
	ID      uint32 // the answer has the same
	Service uint64
}

// Type is TypeResolve.
func (*Resolve) Type() Type { return TypeResolve }

// Validate returns nil.
func (*Resolve) Validate() error { return nil }

// AppendTo appends the message to b.
func (m *Resolve) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(m.Type().header(b), m.ID)
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, m.Service)
}

func (m *Resolve) decode(b []byte) {
	m.ID, m.Service = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[8:])
}

// Resolved answers Resolve.
//
//	8   4 ID
//	12  1 status
//	13  3 0
//	16  8 service
//	24  8 tag of the domain
//	32  4 SRQN
//	36  4 0
type Resolved struct {
	ID      uint32
	Status  Status
	Service uint64
	Queue   Queue // zero unless Found
}

// Type is TypeResolved.
func (*Resolved) Type() Type { return TypeResolved }

// Validate returns nil if a queue is named just if one was found.
func (m *Resolved) Validate() error {
	var c check
	if m.Status == Found {
		c.that(m.Queue.valid(), "SRQN is %#x", m.Queue.SRQN)
	} else {
		c.that(m.Queue == Queue{}, "%v, and a queue", m.Status)
	}
	return c.err()
}

// AppendTo appends the message to b.
func (m *Resolved) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(m.Type().header(b), m.ID)
	b = append(b, byte(m.Status), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, m.Service)
	return m.Queue.appendTo(b)
}

func (m *Resolved) decode(b []byte) {
	m.ID, m.Status = binary.BigEndian.Uint32(b), Status(b[4])
	m.Service = binary.BigEndian.Uint64(b[8:])
	m.Queue = decodeQueue(b[16:])
}
