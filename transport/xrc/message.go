package xrc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/xrc/objects"
)

// Set-up messages find the shared receive queue behind a service of a peer, and get an
// initiator its target there, without the peer's application. resolve and connect are
// requests, resolved and connected their answers. They travel as messages to the control
// queue, and a resolve also behind the hello of a question, see hello.
//
//	0   4 magic "xrcS"
//	4   1 version, 1
//	5   1 type
//	6   2 length, these octets included, a multiple of 4
//	8   4 ID: the answer has that of the request
//	12  the fields of the type
//
// All integers are big-endian. A message is longer than its fields if a later version adds
// some; what this version does not know is skipped.
type message interface {
	// validate returns an error that is errField and names each field that is wrong.
	validate() error
	append(b []byte) []byte
	decode(b []byte) // takes the octets behind the header, of which there are enough for the type
	kind() (messageType, int)
}

type messageType uint8

const (
	typeResolve   messageType = 1
	typeResolved  messageType = 2
	typeConnect   messageType = 3
	typeConnected messageType = 4
)

const (
	messageVersion   = 1
	messageHeaderLen = 12
	messageUnit      = 4 // lengths are multiples of it
	resolveLen       = 24
	resolvedLen      = 40
	connectLen       = 76
	connectedLen     = 64
)

// Errors of decodeMessage and validate. errors.Is finds the errno in each.
var (
	errMagic   = fmt.Errorf("xrc: no set-up message: %w", syscall.EPROTO)
	errVersion = fmt.Errorf("xrc: set-up message of an unknown version: %w", syscall.EPROTO)
	errType    = fmt.Errorf("xrc: unknown set-up message: %w", syscall.EPROTO)
	errLength  = fmt.Errorf("xrc: set-up message of a bad length: %w", syscall.EBADMSG)
	errField   = fmt.Errorf("xrc: bad field of a set-up message: %w", syscall.EINVAL)
)

var messageMagic = [4]byte{'x', 'r', 'c', 'S'}

func newMessage(t messageType) message {
	switch t {
	case typeResolve:
		return new(resolve)
	case typeResolved:
		return new(resolved)
	case typeConnect:
		return new(connect)
	case typeConnected:
		return new(connected)
	}
	return nil
}

// appendMessage appends a message, which must be valid, with its header.
func appendMessage(b []byte, id uint32, m message) []byte {
	t, n := m.kind()
	b = append(append(b, messageMagic[:]...), messageVersion, byte(t))
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	return m.append(binary.BigEndian.AppendUint32(b, id))
}

// decodeMessage reads the message at the beginning of b; rest is what follows. All that it
// returns is valid, and aliases nothing.
func decodeMessage(b []byte) (id uint32, m message, rest []byte, err error) {
	switch {
	case len(b) < len(messageMagic) || [4]byte(b) != messageMagic:
		return 0, nil, b, errMagic
	case len(b) < messageHeaderLen:
		return 0, nil, b, errLength
	case b[4] != messageVersion:
		return 0, nil, b, errVersion
	}
	if m = newMessage(messageType(b[5])); m == nil {
		return 0, nil, b, errType
	}
	_, least := m.kind()
	n := int(binary.BigEndian.Uint16(b[6:]))
	if n < least || n%messageUnit != 0 || n > len(b) {
		return 0, nil, b, errLength
	}
	m.decode(b[messageHeaderLen:n])
	if err := m.validate(); err != nil {
		return 0, nil, b, err
	}
	return binary.BigEndian.Uint32(b[8:]), m, b[n:], nil
}

// fieldCheck collects what is wrong with the fields of a message.
type fieldCheck struct{ errs []error }

func (c *fieldCheck) that(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf("%w: "+format, append([]any{errField}, args...)...))
	}
}

func (c *fieldCheck) err() error { return errors.Join(c.errs...) }

const (
	maxNumber = 0xFFFFFF // highest number of a queue pair
	maxSRQN   = 0xFFFFFE // highest number of a shared receive queue
	minMTU    = 256      // least path MTU that InfiniBand knows
)

func refValid(r objects.Ref) bool {
	return r.Number != 0 && r.Number <= maxNumber && r.Generation != 0
}

func queueValid(q objects.Answer) bool { return q.SRQN != 0 && q.SRQN <= maxSRQN }

func appendQueue(b []byte, q objects.Answer) []byte {
	b = binary.BigEndian.AppendUint64(b, q.Tag)
	b = binary.BigEndian.AppendUint32(b, q.SRQN)
	return append(b, 0, 0, 0, 0)
}

func decodeQueue(b []byte) objects.Answer {
	return objects.Answer{Tag: binary.BigEndian.Uint64(b), SRQN: binary.BigEndian.Uint32(b[8:])}
}

// decodeHost is the address in 16 octets, those of IPv4 as RFC 4291 section 2.5.5.2 maps
// them; not valid for one that no host has.
func decodeHost(b []byte) netip.Addr {
	a := netip.AddrFrom16([16]byte(b)).Unmap()
	if !hostValid(a) {
		return netip.Addr{}
	}
	return a
}

func hostValid(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast()
}

// resolve asks for the shared receive queue behind a service; the peer creates and holds
// nothing for it.
//
//	12  4 0
//	16  8 service
type resolve struct{ service uint64 }

func (*resolve) kind() (messageType, int) { return typeResolve, resolveLen }
func (*resolve) validate() error          { return nil }

func (m *resolve) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), m.service)
}

func (m *resolve) decode(b []byte) { m.service = binary.BigEndian.Uint64(b[4:]) }

// resolved answers resolve.
//
//	12  1 status
//	13  3 0
//	16  8 service
//	24  8 tag of the domain
//	32  4 SRQN
//	36  4 0
type resolved struct {
	status  objects.Status
	service uint64
	queue   objects.Answer // zero unless found
}

func (*resolved) kind() (messageType, int) { return typeResolved, resolvedLen }

func (m *resolved) validate() error {
	var c fieldCheck
	if m.status == objects.StatusFound {
		c.that(queueValid(m.queue), "SRQN is %#x", m.queue.SRQN)
	} else {
		c.that(m.queue == objects.Answer{}, "%v, and a queue", m.status)
	}
	return c.err()
}

func (m *resolved) append(b []byte) []byte {
	b = append(b, byte(m.status), 0, 0, 0)
	return appendQueue(binary.BigEndian.AppendUint64(b, m.service), m.queue)
}

func (m *resolved) decode(b []byte) {
	m.status = objects.Status(b[0])
	m.service = binary.BigEndian.Uint64(b[4:])
	m.queue = decodeQueue(b[12:])
}

// connectMode is what a connect is after.
type connectMode uint8

const (
	// modeNew wants a target, a new one or that of an earlier request of the same initiator
	// and generation.
	modeNew connectMode = 0
	// modeJoin has a target and wants one more service behind it. StatusNotReady says that
	// the target is gone.
	modeJoin connectMode = 1
	// modeResume had a target, the connection to which was lost.
	modeResume connectMode = 2
)

// connectModes is how many modes there are.
const connectModes = 3

// connect asks for a target for an initiator.
//
//	12  1 mode
//	13  1 0
//	14  2 MTU
//	16  16 host
//	32  8 incarnation
//	40  4 number of the initiator
//	44  4 generation of the initiator
//	48  4 echo
//	52  4 not read; 0
//	56  8 service
//	64  4 number of the target
//	68  4 generation of the target
//	72  1 depth of reads and atomics
//	73  3 0
type connect struct {
	mode connectMode

	host        netip.Addr // address of the initiator's host
	incarnation uint64     // incarnation of the initiator's daemon, not 0
	initiator   objects.Ref
	mtu         uint16 // octets, 256 at least
	reads       uint8  // reads and atomics that the initiator would like to have under way
	echo        uint32 // the answer has the same: earlier versions compare, as packet sequence numbers, what is 0 here

	service uint64
	target  objects.Ref // modeJoin and modeResume: the target that exists; else zero
}

func (*connect) kind() (messageType, int) { return typeConnect, connectLen }

func (m *connect) validate() error {
	var c fieldCheck
	c.that(m.mode < connectModes, "mode is %d", m.mode)
	c.that(hostValid(m.host), "host is %v", m.host)
	c.that(m.incarnation != 0, "incarnation is 0")
	c.that(refValid(m.initiator), "initiator is %v", m.initiator)
	c.that(m.mtu >= minMTU, "MTU is %d", m.mtu)
	if m.mode == modeNew {
		c.that(m.target.Number == 0 && m.target.Generation == 0, "a target is named that there is not yet")
	} else {
		c.that(refValid(m.target), "target is %v", m.target)
	}
	return c.err()
}

func (m *connect) append(b []byte) []byte {
	b = append(b, byte(m.mode), 0)
	b = binary.BigEndian.AppendUint16(b, m.mtu)
	h := m.host.As16()
	b = binary.BigEndian.AppendUint64(append(b, h[:]...), m.incarnation)
	b = appendRef(b, m.initiator)
	b = append(binary.BigEndian.AppendUint32(b, m.echo), 0, 0, 0, 0)
	b = appendRef(binary.BigEndian.AppendUint64(b, m.service), m.target)
	return append(b, m.reads, 0, 0, 0)
}

func (m *connect) decode(b []byte) {
	m.mode = connectMode(b[0])
	m.mtu = binary.BigEndian.Uint16(b[2:])
	m.host = decodeHost(b[4:20])
	m.incarnation = binary.BigEndian.Uint64(b[20:])
	m.initiator = decodeRef(b[28:])
	m.echo = binary.BigEndian.Uint32(b[36:])
	m.service = binary.BigEndian.Uint64(b[44:])
	m.target = decodeRef(b[52:])
	m.reads = b[60]
}

// connected answers connect. When the status is found the target takes messages, and the
// queue exists: the first message may find it empty, and nothing else missing.
//
//	12  1 status
//	13  1 1: the target was there before
//	14  2 MTU
//	16  8 incarnation
//	24  4 number of the initiator
//	28  4 generation of the initiator
//	32  4 number of the target
//	36  4 generation of the target
//	40  4 echo
//	44  1 depth of reads and atomics
//	45  2 limits
//	47  1 0
//	48  8 tag of the domain
//	56  4 SRQN
//	60  4 0
type connected struct {
	status      objects.Status
	initiator   objects.Ref // initiator of the request
	incarnation uint64      // incarnation of the target's daemon, not 0

	// The rest is zero unless found.
	target objects.Ref
	reused bool   // the target was there before
	mtu    uint16 // octets
	reads  uint8
	limits limits         // of the target
	echo   uint32         // that of the request
	queue  objects.Answer // zero if the service has no queue
}

const flagReused = 1

func (*connected) kind() (messageType, int) { return typeConnected, connectedLen }

func (m *connected) validate() error {
	var c fieldCheck
	c.that(refValid(m.initiator), "initiator is %v", m.initiator)
	c.that(m.incarnation != 0, "incarnation is 0")
	if m.status != objects.StatusFound {
		rest := connected{status: m.status, initiator: m.initiator, incarnation: m.incarnation, target: objects.Ref{Kind: m.target.Kind}}
		c.that(*m == rest, "%v, and a target", m.status)
		return c.err()
	}
	c.that(refValid(m.target), "target is %v", m.target)
	c.that(m.mtu >= minMTU, "MTU is %d", m.mtu)
	c.that(m.queue == objects.Answer{} || queueValid(m.queue), "SRQN is %#x", m.queue.SRQN)
	return c.err()
}

func (m *connected) append(b []byte) []byte {
	var flags byte
	if m.reused {
		flags |= flagReused
	}
	b = append(b, byte(m.status), flags)
	b = binary.BigEndian.AppendUint16(b, m.mtu)
	b = binary.BigEndian.AppendUint64(b, m.incarnation)
	b = appendRef(appendRef(b, m.initiator), m.target)
	b = binary.BigEndian.AppendUint32(b, m.echo)
	b = append(m.limits.appendTo(append(b, m.reads)), 0)
	return appendQueue(b, m.queue)
}

func (m *connected) decode(b []byte) {
	m.status, m.reused = objects.Status(b[0]), b[1]&flagReused != 0
	m.mtu = binary.BigEndian.Uint16(b[2:])
	m.incarnation = binary.BigEndian.Uint64(b[4:])
	m.initiator, m.target = decodeRef(b[12:]), decodeRef(b[20:])
	m.echo = binary.BigEndian.Uint32(b[28:])
	m.reads, m.limits = b[32], decodeLimits(b[33:])
	m.queue = decodeQueue(b[36:])
}
