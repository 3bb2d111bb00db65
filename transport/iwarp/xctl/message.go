package xctl

import (
	"encoding/binary"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// MaxMessage is the longest control message.
const MaxMessage = 512

// Header is the DDP header of the control message with this number. Control
// messages count from 1 on their own queue, and each is one segment.
func Header(msn uint32) ddp.Untagged {
	return ddp.Untagged{Last: true, ULP: rdmap.OpPrivate.Control(), QN: Control, MSN: msn}
}

// CheckHeader checks the segment of a control message, which goes to Control,
// against the queue that it arrives on.
func CheckHeader(s *rdmap.Segment, q *ddp.Queue) error {
	if err := q.Check(&s.Untagged); err != nil {
		return err
	}
	if !s.Untagged.Last || len(s.Payload) > MaxMessage {
		return rdmap.CauseOpcode
	}
	return nil
}

// Records iterates over the records of a control message:
//
//	it := xctl.Iterate(payload)
//	for it.Next() {
//		switch it.Type() {
//		case xctl.TypeCredit: c := it.Credit() ...
//		}
//	}
//	return it.Err()
type Records struct {
	rest []byte
	body []byte // body of the current record, behind its header
	typ  Type
	bad  bool
}

// Iterate begins before the first record of a message. The message must not
// change until the iteration is over.
func Iterate(message []byte) Records { return Records{rest: message} }

// Next goes to the next record of a known type. It returns false at the end and
// at whatever does not look like a record.
func (r *Records) Next() bool {
	for len(r.rest) > 0 {
		if len(r.rest) < recordHeader {
			r.bad = true
			return false
		}
		t, n := Type(r.rest[0]), int(binary.BigEndian.Uint16(r.rest[2:]))
		if n < recordHeader || n%4 != 0 || n > len(r.rest) || t.Known() && n != t.Len() {
			r.bad = true
			return false
		}
		r.typ, r.body, r.rest = t, r.rest[recordHeader:n:n], r.rest[n:]
		if !t.Known() {
			continue
		}
		if types[t].srq {
			if _, ok := SRQOf(r.word(0)); !ok {
				r.bad = true
				return false
			}
		}
		return true
	}
	return false
}

// Err is nil if the iteration has come to the end of the message, else
// rdmap.CauseOpcode. Records before the bad one have been seen then.
func (r *Records) Err() error {
	if r.bad {
		return rdmap.CauseOpcode
	}
	return nil
}

// Type is the type of the current record. The other methods decode it and are
// for that type alone.
func (r *Records) Type() Type { return r.typ }

func (r *Records) word(at int) uint32 { return binary.BigEndian.Uint32(r.body[at:]) }

func (r *Records) cause(at int) rdmap.Cause { return rdmap.Cause(binary.BigEndian.Uint16(r.body[at:])) }

func (r *Records) srq() SRQN { return SRQN(r.word(0) &^ queueMask) }

// Credit decodes a CREDIT.
func (r *Records) Credit() Credit { return Credit{r.srq(), r.word(4), r.word(8)} }

// NAK decodes a NAK.
func (r *Records) NAK() NAK {
	return NAK{r.srq(), r.word(4), NAKCode(r.body[8]), binary.BigEndian.Uint16(r.body[10:]), r.word(12)}
}

// Resume decodes a RESUME.
func (r *Records) Resume() Resume { return Resume{r.srq(), r.word(4)} }

// ReadError decodes an RDERR.
func (r *Records) ReadError() ReadError { return ReadError{r.word(0), r.cause(4), r.word(8)} }

// WriteError decodes a WRERR.
func (r *Records) WriteError() WriteError {
	return WriteError{r.word(0), r.word(4), binary.BigEndian.Uint64(r.body[8:]), r.cause(16)}
}

// WriteAck decodes a WRACK.
func (r *Records) WriteAck() WriteAck { return WriteAck{r.word(0)} }

// Ping decodes a PING.
func (r *Records) Ping() Ping { return Ping{binary.BigEndian.Uint64(r.body)} }

// Pong decodes a PONG.
func (r *Records) Pong() Pong { return Pong{binary.BigEndian.Uint64(r.body)} }

// SRQ decodes an SRQ record.
func (r *Records) SRQ() SRQ { return SRQ{r.srq(), SRQState(r.body[4])} }

// Refused decodes a REFUSED.
func (r *Records) Refused() Refused {
	return Refused{binary.BigEndian.Uint64(r.body), r.word(8), RefusedCode(r.body[12])}
}

// Home decodes a HOME.
func (r *Records) Home() Home { return Home{r.srq(), r.word(4)} }
