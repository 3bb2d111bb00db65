package setup

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

const (
	connectLen   = 76
	connectedLen = 64
)

// Mode is what a Connect is after.
type Mode uint8

// The modes.
const (
	// ModeNew wants a target, a new one or that of an earlier request of the
	// same initiator and generation.
	ModeNew Mode = 0
	// ModeJoin has a target and wants one more service behind it. NotReady says
	// that it is gone.
	ModeJoin Mode = 1
	// ModeResume had a target, the connection to which was lost, and says which
	// messages it still keeps: from PSN to the one before Next. The answer says
	// which of them is expected first.
	ModeResume Mode = 2
)

var modeNames = [...]string{"new", "join", "resume"}

// String is the name of the mode.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Connect asks for a target for an initiator.
//
//	8   4 ID
//	12  1 mode
//	13  1 0
//	14  2 MTU
//	16  16 host
//	32  8 incarnation
//	40  4 number of the initiator
//	44  4 generation of the initiator
//	48  4 PSN
//	52  4 next PSN
//	56  8 service
//	64  4 number of the target
//	68  4 generation of the target
//	72  1 depth of reads and atomics
//	73  3 0
type Connect struct {
	ID   uint32 // the answer has the same
	Mode Mode

	Host        netip.Addr // address of the initiator's host
	Incarnation uint64     // incarnation of the initiator's daemon, not 0
	Initiator   QP
	MTU         uint16 // octets, 256 at least
	RdAtomic    uint8  // reads and atomics that the initiator would like to have under way
	PSN         uint32 // number of the initiator's first message; ModeResume: of the oldest that it keeps
	Next        uint32 // ModeResume: number of the initiator's next message; else 0

	Service uint64
	Target  QP // ModeJoin and ModeResume: the target that exists; else zero
}

// Type is TypeConnect.
func (*Connect) Type() Type { return TypeConnect }

// Validate returns an error that names each field out of its range, nil if there
// is none.
func (m *Connect) Validate() error {
	var c check
	c.that(int(m.Mode) < len(modeNames), "%v", m.Mode)
	c.that(hostValid(m.Host), "Host is %v", m.Host)
	c.that(m.Incarnation != 0, "Incarnation is 0")
	c.that(m.Initiator.valid(), "Initiator is %+v", m.Initiator)
	c.that(m.MTU >= minMTU, "MTU is %d", m.MTU)
	c.that(m.PSN <= MaxNumber && m.Next <= MaxNumber, "PSN is %#x, Next %#x", m.PSN, m.Next)
	if m.Mode == ModeNew {
		c.that(m.Target == QP{}, "%v, and a target", m.Mode)
	} else {
		c.that(m.Target.valid(), "Target is %+v", m.Target)
	}
	if m.Mode == ModeResume {
		c.that((m.Next-m.PSN)&MaxNumber < 1<<23, "Next is before PSN")
	} else {
		c.that(m.Next == 0, "%v, and Next", m.Mode)
	}
	return c.err()
}

// AppendTo appends the message to b.
func (m *Connect) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(m.Type().header(b), m.ID)
	b = append(b, byte(m.Mode), 0)
	b = binary.BigEndian.AppendUint16(b, m.MTU)
	b = appendHost(b, m.Host)
	b = binary.BigEndian.AppendUint64(b, m.Incarnation)
	b = m.Initiator.appendTo(b)
	b = binary.BigEndian.AppendUint32(b, m.PSN)
	b = binary.BigEndian.AppendUint32(b, m.Next)
	b = binary.BigEndian.AppendUint64(b, m.Service)
	b = m.Target.appendTo(b)
	return append(b, m.RdAtomic, 0, 0, 0)
}

func (m *Connect) decode(b []byte) {
	m.ID, m.Mode = binary.BigEndian.Uint32(b), Mode(b[4])
	m.MTU = binary.BigEndian.Uint16(b[6:])
	m.Host = decodeHost(b[8:24])
	m.Incarnation = binary.BigEndian.Uint64(b[24:])
	m.Initiator = decodeQP(b[32:])
	m.PSN = binary.BigEndian.Uint32(b[40:])
	m.Next = binary.BigEndian.Uint32(b[44:])
	m.Service = binary.BigEndian.Uint64(b[48:])
	m.Target = decodeQP(b[56:])
	m.RdAtomic = b[64]
}

// Connected answers Connect. With Found the target takes messages, and the queue
// exists: the first message may find it empty, and nothing else missing.
//
//	8   4 ID
//	12  1 status
//	13  1 flags: bit 0, the target was there before
//	14  2 MTU
//	16  8 incarnation
//	24  4 number of the initiator
//	28  4 generation of the initiator
//	32  4 number of the target
//	36  4 generation of the target
//	40  4 PSN
//	44  1 depth of reads and atomics
//	45  3 0
//	48  8 tag of the domain
//	56  4 SRQN
//	60  4 0
type Connected struct {
	ID        uint32
	Status    Status
	Initiator QP // Initiator of the request

	Incarnation uint64 // incarnation of the target's daemon, not 0

	// The rest is zero unless Found.
	Target   QP
	Reused   bool   // the target was there before
	MTU      uint16 // octets
	RdAtomic uint8
	PSN      uint32 // number of the target's first message; ModeResume: of the first that it expects
	Queue    Queue  // zero if the service has no queue
}

const flagReused = 1

// Type is TypeConnected.
func (*Connected) Type() Type { return TypeConnected }

// Validate returns an error that names each field out of its range, nil if there
// is none.
func (m *Connected) Validate() error {
	var c check
	c.that(m.Initiator.valid(), "Initiator is %+v", m.Initiator)
	c.that(m.Incarnation != 0, "Incarnation is 0")
	if m.Status != Found {
		rest := Connected{ID: m.ID, Status: m.Status, Initiator: m.Initiator, Incarnation: m.Incarnation}
		c.that(*m == rest, "%v, and a target", m.Status)
		return c.err()
	}
	c.that(m.Target.valid(), "Target is %+v", m.Target)
	c.that(m.MTU >= minMTU, "MTU is %d", m.MTU)
	c.that(m.PSN <= MaxNumber, "PSN is %#x", m.PSN)
	c.that(m.Queue == Queue{} || m.Queue.valid(), "SRQN is %#x", m.Queue.SRQN)
	return c.err()
}

// AppendTo appends the message to b.
func (m *Connected) AppendTo(b []byte) []byte {
	var flags byte
	if m.Reused {
		flags |= flagReused
	}
	b = binary.BigEndian.AppendUint32(m.Type().header(b), m.ID)
	b = append(b, byte(m.Status), flags)
	b = binary.BigEndian.AppendUint16(b, m.MTU)
	b = binary.BigEndian.AppendUint64(b, m.Incarnation)
	b = m.Initiator.appendTo(b)
	b = m.Target.appendTo(b)
	b = binary.BigEndian.AppendUint32(b, m.PSN)
	b = append(b, m.RdAtomic, 0, 0, 0)
	return m.Queue.appendTo(b)
}

func (m *Connected) decode(b []byte) {
	m.ID, m.Status, m.Reused = binary.BigEndian.Uint32(b), Status(b[4]), b[5]&flagReused != 0
	m.MTU = binary.BigEndian.Uint16(b[6:])
	m.Incarnation = binary.BigEndian.Uint64(b[8:])
	m.Initiator = decodeQP(b[16:])
	m.Target = decodeQP(b[24:])
	m.PSN = binary.BigEndian.Uint32(b[32:])
	m.RdAtomic = b[36]
	m.Queue = decodeQueue(b[40:])
}
