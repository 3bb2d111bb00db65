package xctl

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Type is the type of a record of a control message.
type Type uint8

// The types. What has another one is skipped.
const (
	TypeCredit     Type = 1
	TypeNAK        Type = 2
	TypeResume     Type = 3
	TypeReadError  Type = 4
	TypeWriteError Type = 5
	TypeWriteAck   Type = 6
	TypePing       Type = 7
	TypePong       Type = 8
	TypeSRQ        Type = 9
	TypeHome       Type = 10
	TypeRefused    Type = 11

	TypeGrant  Type = 16
	TypeReturn Type = 17
	TypeFull   Type = 18
)

var types = [...]struct {
	name string
	len  uint8
	srq  bool // the record begins with the number of a queue
}{
	TypeCredit:     {"CREDIT", 16, true},
	TypeNAK:        {"NAK", 20, true},
	TypeResume:     {"RESUME", 12, true},
	TypeReadError:  {"RDERR", 16, false},
	TypeWriteError: {"WRERR", 24, false},
	TypeWriteAck:   {"WRACK", 8, false},
	TypePing:       {"PING", 12, false},
	TypePong:       {"PONG", 12, false},
	TypeSRQ:        {"SRQ", 12, true},
	TypeHome:       {"HOME", 12, true},
	TypeRefused:    {"REFUSED", 20, false},
	TypeGrant:      {"GRANT", 16, false},
	TypeReturn:     {"RETURN", 16, false},
	TypeFull:       {"FULL", 12, false},
}

// Known reports whether the type is one of this package's.
func (t Type) Known() bool { return int(t) < len(types) && types[t].len > 0 }

// Len is the length of a record of a known type.
func (t Type) Len() int { return int(types[t].len) }

// String is the name of the type.
func (t Type) String() string {
	if t.Known() {
		return types[t].name
	}
	return fmt.Sprintf("record type %d", uint8(t))
}

// Record is one of the types of records. Each begins with four octets:
//
//	0   1 type
//	1   1 flags, 0
//	2   2 length, these four included, a multiple of 4
type Record interface {
	// encode returns the type and what follows the header.
	encode() (Type, body)
}

// body has the words behind the header of a record, of which there are as many as its type's
// length tells.
type body [5]uint32

const recordHeader = 4

// AppendTo appends a record to b.
func AppendTo[T Record](b []byte, r T) []byte {
	t, words := r.encode()
	return words.appendTo(b, t)
}

func (w *body) appendTo(b []byte, t Type) []byte {
	b = append(b, byte(t), 0, 0, byte(t.Len()))
	for _, x := range w[:t.Len()/4-1] {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

// Credit acknowledges the messages of a queue and says how far the sender may go.
//
//	4   4 QN
//	8   4 delivered: every message up to here is, but for those of earlier NAKs
//	12  4 limit: the last message that may be sent
type Credit struct {
	SRQ       SRQN
	Delivered uint32
	Limit     uint32
}

func (c Credit) key() SRQN { return c.SRQ }

func (c Credit) encode() (Type, body) { return TypeCredit, body{c.SRQ.QN(), c.Delivered, c.Limit} }

// NAKCode is why a message was refused.
type NAKCode uint8

// The codes. All but NAKNotReady are the end of the message; that one is the end
// of nothing, the sender comes back with the message.
const (
	NAKUnknown    NAKCode = 1 // there is no such queue, or there are too many
	NAKNotReady   NAKCode = 2 // the queue has no buffer, Info is the limit
	NAKTooLong    NAKCode = 3 // Info is the size of the buffer
	NAKForbidden  NAKCode = 4
	NAKDependency NAKCode = 5 // a Write that the message builds on has failed
	NAKDraining   NAKCode = 6
	NAKInvalidate NAKCode = 7 // the STag named for invalidation cannot be invalidated
)

var nakNames = [...]string{
	NAKUnknown: "unknown SRQ", NAKNotReady: "not ready", NAKTooLong: "too long", NAKForbidden: "not permitted",
	NAKDependency: "dependency failed", NAKDraining: "draining", NAKInvalidate: "cannot invalidate",
}

// String describes the code.
func (c NAKCode) String() string {
	if c > 0 && int(c) < len(nakNames) {
		return nakNames[c]
	}
	return fmt.Sprintf("NAK code %d", uint8(c))
}

// NAK refuses one message.
//
//	4   4 QN
//	8   4 MSN
//	12  1 code
//	13  1 0
//	14  2 backoff in milliseconds
//	16  4 info
type NAK struct {
	SRQ     SRQN
	MSN     uint32
	Code    NAKCode
	Backoff uint16 // milliseconds
	Info    uint32 // meaning depends on Code
}

func (n NAK) encode() (Type, body) {
	return TypeNAK, body{n.SRQ.QN(), n.MSN, uint32(n.Code)<<24 | uint32(n.Backoff), n.Info}
}

// Wait is how long the sender leaves a queue that is not ready alone.
func (n NAK) Wait() time.Duration { return time.Duration(n.Backoff) * time.Millisecond }

// Resume ends the refusal of a queue's messages: from MSN on they count again.
//
//	4   4 QN
//	8   4 MSN of the next message
type Resume struct {
	SRQ SRQN
	MSN uint32
}

func (r Resume) encode() (Type, body) { return TypeResume, body{r.SRQ.QN(), r.MSN} }

// ReadError stands for the response, or what is left of it, to a Read or Atomic
// Request that failed.
//
//	4   4 MSN of the request on queue 1
//	8   2 cause: layer and error type, error code
//	10  2 0
//	12  4 octets answered before; what the requester finds there is undefined
type ReadError struct {
	MSN    uint32
	Cause  rdmap.Cause
	Placed uint32
}

func (e ReadError) encode() (Type, body) {
	return TypeReadError, body{e.MSN, uint32(e.Cause) << 16, e.Placed}
}

// WriteError tells of a Write that failed. Its octets were dropped.
//
//	4   4 ordinal of the Write
//	8   4 STag
//	12  8 TO
//	20  2 cause: layer and error type, error code
//	22  2 0
type WriteError struct {
	Ordinal uint32
	STag    uint32
	TO      uint64
	Cause   rdmap.Cause
}

func (e WriteError) encode() (Type, body) {
	return TypeWriteError, body{e.Ordinal, e.STag, uint32(e.TO >> 32), uint32(e.TO), uint32(e.Cause) << 16}
}

// WriteAck says that all Writes up to an ordinal are placed, but for those of
// earlier WRERRs.
//
//	4   4 ordinal
type WriteAck struct{ Ordinal uint32 }

func (a WriteAck) encode() (Type, body) { return TypeWriteAck, body{a.Ordinal} }

// Ping asks for a Pong with the same nonce.
//
//	4   8 nonce
type Ping struct{ Nonce uint64 }

func (p Ping) encode() (Type, body) { return TypePing, body{uint32(p.Nonce >> 32), uint32(p.Nonce)} }

// Pong answers a Ping.
//
//	4   8 nonce
type Pong struct{ Nonce uint64 }

func (p Pong) encode() (Type, body) { return TypePong, body{uint32(p.Nonce >> 32), uint32(p.Nonce)} }

// SRQState is what a queue's owner tells of it.
type SRQState uint8

// The states.
const (
	SRQUp       SRQState = 1
	SRQDraining SRQState = 2
	SRQGone     SRQState = 3
)

// SRQ announces the state of a shared receive queue. It saves the peer messages
// that would be refused; nothing depends on it.
//
//	4   4 QN
//	8   1 state
//	9   3 0
type SRQ struct {
	SRQ   SRQN
	State SRQState
}

func (s SRQ) key() SRQN { return s.SRQ }

func (s SRQ) encode() (Type, body) { return TypeSRQ, body{s.SRQ.QN(), uint32(s.State) << 24} }

// Home says which queue messages of a kind belong to. What a kind is the programs
// have agreed on; nothing depends on it here.
//
//	4   4 QN
//	8   4 tag
type Home struct {
	SRQ SRQN
	Tag uint32
}

func (h Home) key() uint32 { return h.Tag }

func (h Home) encode() (Type, body) { return TypeHome, body{h.SRQ.QN(), h.Tag} }

// RefusedCode is why the program did not deliver messages.
type RefusedCode uint8

// The codes.
const (
	RefusedPort    RefusedCode = 1 // nobody is bound to the port that the messages are for
	RefusedUnknown RefusedCode = 2 // the receiver does not know whether the messages are delivered
	RefusedLength  RefusedCode = 3 // the messages are longer than the receiver takes
)

// Refused says that the program at this end has taken Count messages, whose numbers follow
// each other, and has not delivered them. What the numbers count the programs have agreed
// on; they are not MSNs, of which one may carry several messages. It is sent with
// CapRefused only, ahead of the CREDIT that acknowledges the messages.
//
//	4   8 number of the first
//	12  4 count
//	16  1 code
//	17  3 0
type Refused struct {
	First uint64
	Count uint32
	Code  RefusedCode
}

func (r Refused) encode() (Type, body) {
	return TypeRefused, body{uint32(r.First >> 32), uint32(r.First), r.Count, uint32(r.Code) << 24}
}
