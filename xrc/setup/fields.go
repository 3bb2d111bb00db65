package setup

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MaxNumber is the highest number of a queue pair, and of a packet.
const MaxNumber = 0xFFFFFF

// maxSRQN is the highest number of a shared receive queue; the one above it is
// the control queue of package xctl.
const maxSRQN = 0xFFFFFE

// minMTU is the least path MTU that InfiniBand knows.
const minMTU = 256

// QP names a queue pair for good: numbers are used again, generations are not.
type QP struct {
	Number     uint32 // 24 bits, not 0
	Generation uint32 // generation of the number, not 0
}

func (q QP) appendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, q.Number), q.Generation)
}

func decodeQP(b []byte) QP {
	return QP{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func (q QP) valid() bool { return q.Number != 0 && q.Number <= MaxNumber && q.Generation != 0 }

// Status is what became of a request.
type Status uint8

// The statuses. One that is not known means a refusal as Rejected does.
const (
	Found        Status = 0
	NotFound     Status = 1 // nobody advertises the service
	WrongService Status = 2 // the service hands out no shared receive queue
	Rejected     Status = 3 // the request is not for this host, or not with these parameters
	Busy         Status = 4 // a limit was reached; may succeed later
	NotReady     Status = 5 // something that the request names is gone or going: start from scratch
)

var statusNames = [...]string{"found", "not found", "wrong service", "rejected", "busy", "not ready"}

// String is the name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Queue is the shared receive queue behind a service.
type Queue struct {
	SRQN uint32 // 24 bits, 1 to 0xFFFFFE
	// Tag is the scope of SRQN: that of another domain has another one.
	Tag uint64
}

func (q Queue) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, q.Tag)
	b = binary.BigEndian.AppendUint32(b, q.SRQN)
	return append(b, 0, 0, 0, 0)
}

func decodeQueue(b []byte) Queue {
	return Queue{Tag: binary.BigEndian.Uint64(b), SRQN: binary.BigEndian.Uint32(b[8:])}
}

func (q Queue) valid() bool { return q.SRQN != 0 && q.SRQN <= maxSRQN }

// appendHost appends a host's address in 16 octets, that of IPv4 as RFC 4291
// section 2.5.5.2 maps it.
func appendHost(b []byte, a netip.Addr) []byte {
	h := a.As16()
	return append(b, h[:]...)
}

func decodeHost(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)).Unmap() }

// hostValid tells whether a is one address of one host, in the form that
// decodeHost returns.
func hostValid(a netip.Addr) bool {
	return a.IsValid() && a == a.Unmap() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast()
}
