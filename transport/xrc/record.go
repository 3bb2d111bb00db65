package xrc

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/rds-go/rds/xrc/objects"
)

// Two transports talk about channels by messages to the control queue. Each is one set-up
// message (message.go) or one record.
//
//	0   4 magic "xrcF"
//	4   1 version, 1
//	5   1 kind
//	6   2 length, all included, a multiple of 4
//	8   4 ID
//	12  4 SRQN
//	16  8 link
//	24  8 0
//	32  1 reason: 4, it is not known any more; else 0
//	33  1 0
//	34  2 number of items
//	36  items
//
// All integers are big-endian. Fields that a kind has no use for are 0.
type record struct {
	kind    recordKind
	unknown bool           // delivered: it is not known any more what has come
	id      uint32         // ask, missing, inquire, delivered: the answer has that of the question
	queue   uint32         // inquire, delivered
	link    uint64         // inquire, delivered: the connection that was lost
	refs    []objects.Ref  // gone, missing, refused
	pairs   []objects.Pair // ask
	limits  []targetLimits // limits
	numbers []uint32       // inquire, delivered: of messages; closed: SRQNs
}

type recordKind uint8

const (
	recordGone      recordKind = 2  // queue pairs of the sender that are no more
	recordAsk       recordKind = 3  // asks whether these queue pairs of the receiver are connected so, and whether the domain of a queue pair's peer has these queues of the receiver
	recordMissing   recordKind = 4  // answers recordAsk: these queue pairs are not connected, or queues not there
	recordInquire   recordKind = 5  // asks which of these messages have come by a connection that was lost
	recordDelivered recordKind = 6  // answers recordInquire: these messages have come
	recordClosed    recordKind = 7  // shared receive queues of the sender that are no more
	recordBye       recordKind = 8  // the sender's incarnation ends
	recordLimits    recordKind = 9  // limits of targets of the sender that have changed; to those who said that they take this kind
	recordRefused   recordKind = 10 // targets of the receiver that the sender has refused requests for, which they do not allow; to those who said limits
	recordKinds                = 11
)

const (
	recordLen     = 36
	recordVersion = 1
	maxItems      = 240 // small enough for every kind to fit controlLen
	reasonUnknown = 4
)

var recordMagic = [4]byte{'x', 'r', 'c', 'F'}

// errRecord: the peer says something that no transport says (EPROTO).
var errRecord = fmt.Errorf("xrc: malformed record: %w", syscall.EPROTO)

// itemLen is what one item of a kind takes.
func (k recordKind) itemLen() int {
	switch k {
	case recordGone, recordMissing, recordRefused:
		return 8
	case recordLimits:
		return 12
	case recordAsk:
		return 16
	case recordInquire, recordDelivered, recordClosed:
		return 4
	}
	return 0
}

func (r *record) appendTo(b []byte) []byte {
	items := len(r.refs) + len(r.pairs) + len(r.limits) + len(r.numbers)
	b = append(b, recordMagic[:]...)
	b = append(b, recordVersion, byte(r.kind))
	b = binary.BigEndian.AppendUint16(b, uint16(recordLen+items*r.kind.itemLen()))
	b = binary.BigEndian.AppendUint32(b, r.id)
	b = binary.BigEndian.AppendUint32(b, r.queue)
	b = binary.BigEndian.AppendUint64(b, r.link)
	b = binary.BigEndian.AppendUint64(b, 0)
	var reason byte
	if r.unknown {
		reason = reasonUnknown
	}
	b = append(b, reason, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(items))
	for _, q := range r.refs {
		b = appendRef(b, q)
	}
	for _, p := range r.pairs {
		b = appendRef(appendRef(b, p.Ours), p.Theirs)
	}
	for _, l := range r.limits {
		b = append(l.limits.appendTo(appendRef(b, l.target)), l.reads, 0)
	}
	for _, n := range r.numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func appendRef(b []byte, r objects.Ref) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, r.Number), r.Generation)
}

func decodeRef(b []byte) objects.Ref {
	n := binary.BigEndian.Uint32(b)
	return objects.Ref{Kind: objects.KindOf(n), Number: n, Generation: binary.BigEndian.Uint32(b[4:])}
}

// isRecord tells records from set-up messages.
func isRecord(b []byte) bool { return len(b) >= 4 && [4]byte(b) == recordMagic }

// decode reads the record at the beginning of b; what it returns is the rest. It
// keeps nothing of b.
func (r *record) decode(b []byte) (rest []byte, err error) {
	*r = record{}
	if len(b) < recordLen || !isRecord(b) || b[4] != recordVersion {
		return b, errRecord
	}
	k, n, items := recordKind(b[5]), int(binary.BigEndian.Uint16(b[6:])), int(binary.BigEndian.Uint16(b[34:]))
	if k < recordGone || k >= recordKinds || n > len(b) || n != recordLen+items*k.itemLen() || items > maxItems || items > 0 && k.itemLen() == 0 || binary.BigEndian.Uint64(b[24:]) != 0 || b[32] != 0 && b[32] != reasonUnknown || b[33] != 0 {
		return b, errRecord
	}
	*r = record{kind: k, unknown: b[32] == reasonUnknown, id: binary.BigEndian.Uint32(b[8:]), queue: binary.BigEndian.Uint32(b[12:]),
		link: binary.BigEndian.Uint64(b[16:])}
	body := b[recordLen:n]
	for range items {
		switch k {
		case recordGone, recordMissing, recordRefused:
			r.refs = append(r.refs, decodeRef(body))
		case recordAsk:
			r.pairs = append(r.pairs, objects.Pair{Ours: decodeRef(body), Theirs: decodeRef(body[8:])})
		case recordLimits:
			if body[8]&^byte(remoteRights) != 0 || body[9] > 31 || body[11] != 0 {
				return b, errRecord
			}
			r.limits = append(r.limits, targetLimits{decodeRef(body), decodeLimits(body[8:]), body[10]})
		default:
			r.numbers = append(r.numbers, binary.BigEndian.Uint32(body))
		}
		body = body[k.itemLen():]
	}
	return b[n:], nil
}
