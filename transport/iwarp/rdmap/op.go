package rdmap

import "fmt"

// Version is the RDMAP version of RFC 5040, the only one understood.
const Version = 1

// Bits of the control octet (RFC 5040 section 4.1); the two between are
// reserved, sent as zero and ignored on receipt.
const (
	controlVersion = 6 // shift
	controlOp      = 0x0f
)

// Op is an RDMAP opcode.
type Op uint8

// The opcodes of RFC 5040 section 4.3 and RFC 7306 section 10.1. OpPrivate is
// reserved for experiments (RFC 6580 section 3.4).
const (
	OpWrite                   Op = 0x0
	OpReadRequest             Op = 0x1
	OpReadResponse            Op = 0x2
	OpSend                    Op = 0x3
	OpSendInvalidate          Op = 0x4
	OpSendSolicited           Op = 0x5
	OpSendSolicitedInvalidate Op = 0x6
	OpTerminate               Op = 0x7
	OpImmediate               Op = 0x8
	OpImmediateSolicited      Op = 0x9
	OpAtomicRequest           Op = 0xa
	OpAtomicResponse          Op = 0xb
	OpPrivate                 Op = 0xf
)

// DDP queue numbers, RFC 5040 section 5.1 and RFC 7306 section 10.2.
const (
	QueueSend           = 0 // Sends and immediate data
	QueueRequest        = 1 // Read and Atomic Requests
	QueueTerminate      = 2
	QueueAtomicResponse = 3
	Queues              = 4
)

var opNames = [16]string{
	"RDMA Write", "RDMA Read Request", "RDMA Read Response",
	"Send", "Send with Invalidate", "Send with SE", "Send with SE and Invalidate",
	"Terminate", "Immediate Data", "Immediate Data with SE",
	"Atomic Request", "Atomic Response", 0xf: "private",
}

// ParseControl takes the opcode out of an RDMAP control octet. It returns
// CauseVersion for another version and CauseOpcode for an unassigned opcode;
// which of the others a stream takes is told by Ops.
func ParseControl(b byte) (Op, error) {
	if b>>controlVersion != Version {
		return 0, CauseVersion
	}
	op := Op(b & controlOp)
	if opNames[op] == "" {
		return 0, CauseOpcode
	}
	return op, nil
}

// Control is the control octet of a message with this opcode.
func (op Op) Control() uint8 { return Version<<controlVersion | uint8(op)&controlOp }

// Tagged reports whether the message goes in tagged segments.
func (op Op) Tagged() bool { return op == OpWrite || op == OpReadResponse }

// Queue is the DDP queue of an untagged message. Tagged messages have none, and
// the queue of a private one is agreed elsewhere; for these it is 0.
func (op Op) Queue() uint32 {
	switch op {
	case OpReadRequest, OpAtomicRequest:
		return QueueRequest
	case OpTerminate:
		return QueueTerminate
	case OpAtomicResponse:
		return QueueAtomicResponse
	}
	return QueueSend
}

// Send reports whether the message is one of the four kinds of Send.
func (op Op) Send() bool { return op >= OpSend && op <= OpSendSolicitedInvalidate }

// Immediate reports whether the message is immediate data of either kind.
func (op Op) Immediate() bool { return op == OpImmediate || op == OpImmediateSolicited }

// Invalidates reports whether the message names an STag to invalidate.
func (op Op) Invalidates() bool { return op == OpSendInvalidate || op == OpSendSolicitedInvalidate }

// Solicited reports whether the message asks for an event at the receiver.
func (op Op) Solicited() bool {
	return op == OpSendSolicited || op == OpSendSolicitedInvalidate || op == OpImmediateSolicited
}

// String is the name of the message.
func (op Op) String() string {
	if op <= controlOp && opNames[op] != "" {
		return opNames[op]
	}
	return fmt.Sprintf("opcode %#x", uint8(op))
}

// Ops is a set of opcodes: what a stream takes from its peer.
type Ops uint16

// The two standard sets. OpPrivate is in neither.
const (
	OpsRFC5040 Ops = 0x00ff
	OpsRFC7306 Ops = 0x0f00
)

// Has reports whether op is in the set.
func (s Ops) Has(op Op) bool { return op <= controlOp && s>>op&1 != 0 }
