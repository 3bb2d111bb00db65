package setup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// MaxLen is the longest message: the private data of an MPA frame that Linux's
// siw takes, 256 octets, without the enhanced prefix and the block of package
// xctl.
const MaxLen = 220

const (
	version   = 1
	headerLen = 8
	unit      = 4 // lengths are multiples of unit
)

// Errors of Decode and Validate. errors.Is finds the errno in each.
var (
	// ErrMagic: this is something else (EPROTO).
	ErrMagic = fmt.Errorf("setup: no message of the set-up exchange: %w", syscall.EPROTO)
	// ErrVersion: the message begins otherwise than those of version 1 (EPROTO).
	ErrVersion = fmt.Errorf("setup: unknown version: %w", syscall.EPROTO)
	// ErrType: version 1 has no such message (EPROTO).
	ErrType = fmt.Errorf("setup: unknown message: %w", syscall.EPROTO)
	// ErrLength: the message ends before its fields do, or beyond the data (EBADMSG).
	ErrLength = fmt.Errorf("setup: bad length: %w", syscall.EBADMSG)
	// ErrField: a field has a value that it cannot have (EINVAL).
	ErrField = fmt.Errorf("setup: bad field: %w", syscall.EINVAL)
)

// Type is the type of a message.
type Type uint8

// The types.
const (
	TypeResolve   Type = 1
	TypeResolved  Type = 2
	TypeConnect   Type = 3
	TypeConnected Type = 4
)

var types = [...]struct {
	name string
	len  uint8
}{
	TypeResolve:   {"resolve", resolveLen},
	TypeResolved:  {"resolved", resolvedLen},
	TypeConnect:   {"connect", connectLen},
	TypeConnected: {"connected", connectedLen},
}

// String is the name of the type.
func (t Type) String() string {
	if t > 0 && int(t) < len(types) {
		return types[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Message is one of *Resolve, *Resolved, *Connect and *Connected.
type Message interface {
	// Type is the type of the message.
	Type() Type
	// Validate returns nil if the message can be sent, else an error that is
	// ErrField and names the fields.
	Validate() error
	// AppendTo appends the message, which must be valid.
	AppendTo(b []byte) []byte

	decode(b []byte) // takes the bytes behind the header, of which there are enough for the type
}

var magic = [4]byte{'x', 'r', 'c', 'S'}

// header appends what every message begins with:
//
//	0   4 magic "xrcS"
//	4   1 version, 1
//	5   1 type
//	6   2 length, these eight octets included, a multiple of 4
func (t Type) header(b []byte) []byte {
	b = append(b, magic[:]...)
	b = append(b, version, byte(t))
	return binary.BigEndian.AppendUint16(b, uint16(types[t].len))
}

// Decode reads the message at the beginning of b. The rest of b is the
// application's. It fails with the errors above; all it returns is valid.
func Decode(b []byte) (m Message, rest []byte, err error) {
	if len(b) < len(magic) || [4]byte(b) != magic {
		return nil, b, ErrMagic
	}
	if len(b) < headerLen {
		return nil, b, ErrLength
	}
	if b[4] != version {
		return nil, b, ErrVersion
	}
	switch Type(b[5]) {
	case TypeResolve:
		m = new(Resolve)
	case TypeResolved:
		m = new(Resolved)
	case TypeConnect:
		m = new(Connect)
	case TypeConnected:
		m = new(Connected)
	default:
		return nil, b, ErrType
	}
	n := int(binary.BigEndian.Uint16(b[6:]))
	if n < int(types[b[5]].len) || n%unit != 0 || n > len(b) {
		return nil, b, ErrLength
	}
	m.decode(b[headerLen:n])
	if err := m.Validate(); err != nil {
		return nil, b, err
	}
	return m, b[n:], nil
}

// check collects what is wrong with the fields of a message.
type check struct{ errs []error }

func (c *check) that(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf("%w: "+format, append([]any{ErrField}, args...)...))
	}
}

func (c *check) err() error { return errors.Join(c.errs...) }
