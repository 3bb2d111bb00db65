package rdmap

import "github.com/rds-go/rds/transport/iwarp/ddp"

// Segment is one DDP segment, decoded.
type Segment struct {
	Op       Op
	Tagged   ddp.Tagged   // header of a tagged segment, if Op is tagged
	Untagged ddp.Untagged // header of an untagged one
	Payload  []byte       // aliases the input
}

// Parse reads a segment from b, a whole ULPDU, and checks what needs no state,
// in this order: length (ddp.ErrShort), DDP version, queue number
// (ddp.ErrInvalidQN), RDMAP version (CauseVersion), opcode, which must be in ops
// and of the segment's buffer model (CauseOpcode), and whether the opcode belongs
// on that queue (ddp.ErrInvalidQN).
//
// After an error only s.Op means anything, and that only if it is not 0: a
// Terminate on a wrong queue is not answered with another.
//
// Where OpPrivate is in ops, queues beyond those of the RFCs are for the caller
// to check: Sends, immediate data and private messages may name any.
func (s *Segment) Parse(b []byte, ops Ops) error {
	s.Op = 0
	if len(b) == 0 {
		return ddp.ErrShort
	}
	tagged := ddp.IsTagged(b[0])
	var control uint8
	if tagged {
		if err := s.Tagged.Decode(b); err != nil {
			return err
		}
		control, s.Payload = s.Tagged.ULP, b[ddp.TaggedLen:]
	} else {
		if err := s.Untagged.Decode(b); err != nil {
			return err
		}
		control, s.Payload = s.Untagged.ULP, b[ddp.UntaggedLen:]
		if s.Untagged.QN >= Queues && !ops.Has(OpPrivate) {
			return ddp.ErrInvalidQN
		}
	}
	op, err := ParseControl(control)
	if err != nil {
		return err
	}
	s.Op = op
	if !ops.Has(op) || op.Tagged() != tagged {
		return CauseOpcode
	}
	if !tagged && !op.on(s.Untagged.QN) {
		return ddp.ErrInvalidQN
	}
	return nil
}

// on reports whether an untagged message may come on queue qn, if there is one.
func (op Op) on(qn uint32) bool {
	if qn < Queues {
		return op != OpPrivate && qn == op.Queue()
	}
	return op.Send() || op.Immediate() || op == OpPrivate
}

// Last reports whether the segment ends its message.
func (s *Segment) Last() bool {
	if s.Op.Tagged() {
		return s.Tagged.Last
	}
	return s.Untagged.Last
}
