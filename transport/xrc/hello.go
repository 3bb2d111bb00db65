package xrc

import (
	"encoding/binary"
	"errors"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/xrc/objects"
)

// hello is the private data of both sides' set-up frames, behind the block of shared
// receive queues, and before the seal (mpa.Params.Seal):
//
//	0   4 magic "RDSx"
//	4   1 version, 4
//	5   1 path
//	6   1 question: version of the asker; else 0
//	7   1 limit: the longest payload of RDS that the sender takes, in units of 4 KiB; 255: 1 MiB;
//	      0: the sender does not know limits, nor refusals for them
//	8   4 generation
//	12  8 link
//	20  4 queue
//	24  4 number of the initiator
//	28  4 generation of the initiator
//	32  4 number of the target
//	36  4 generation of the target
//
// All integers are big-endian. A later version may be longer.
type hello struct {
	path       uint8  // index of the path that the link is meant for
	generation uint32 // generation of the node that sends the hello; 0: the sender has none
	link       uint64 // number of the link, by which messages of it are asked for later; the reply has 0
	queue      uint32 // SRQN for messages to ports of which nothing is known
	limit      wire.Limit

	// initiator and target are the sender's queue pairs of the path, zero from a side that
	// only wants to be connected to, see Transport.Dial.
	initiator, target objects.Ref
}

// Version 0 is a question: whoever sends it wants no link, and hears whether the other side
// would give it one. The answer is an MPA Reply that rejects, with a hello; a rejection
// without one means no. A set-up message resolve may follow the question's hello, and
// resolved the answer's.
//
// Versions 1 and 2 had other queues, and no queue pairs, and operations of version 3 did not have to
// name a queue, whose protection domain bounds them: between such a peer and us there is
// no link, but RDS over TCP until it is upgraded. Version 2 takes an answer of any version for
// a yes, so that nobody is answered who asks in an earlier version than ours.
const (
	helloMagic   = 0x52445378 // "RDSx"
	helloAsks    = 0
	helloVersion = 4
	helloLeast   = 8 // octets that hellos of all versions have
	helloSize    = 40
)

var (
	// errHello: whoever is there speaks iWARP with shared queues, but not RDS.
	errHello = errors.New("xrc: the peer does not speak RDS")
	// errOldVersion: the peer speaks an earlier version of RDS on XRC.
	errOldVersion = errors.New("xrc: the peer speaks an earlier version of RDS on XRC")
)

func (h hello) bytes() []byte { return h.say(helloVersion, 0) }

// question is the private data of a question.
func (h hello) question() []byte { return h.say(helloAsks, helloVersion) }

func (h hello) say(version, asker uint8) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, helloSize+connectLen), helloMagic)
	b = append(b, version, h.path, asker, byte(h.limit))
	b = binary.BigEndian.AppendUint32(b, h.generation)
	b = binary.BigEndian.AppendUint64(b, h.link)
	b = binary.BigEndian.AppendUint32(b, h.queue)
	return appendRef(appendRef(b, h.initiator), h.target)
}

// asks tells whether the private data of a Request is a question, and of which version the
// side is that asks.
func asks(b []byte) (asker uint8, ok bool) {
	if len(b) < helloLeast || binary.BigEndian.Uint32(b) != helloMagic || b[4] != helloAsks {
		return 0, false
	}
	return b[6], true
}

// parseHello takes what a peer of this version or a later one says, and returns what follows.
func parseHello(b []byte) (h hello, rest []byte, err error) {
	switch {
	case len(b) < helloLeast || binary.BigEndian.Uint32(b) != helloMagic || b[4] == helloAsks:
		return hello{}, nil, errHello
	case b[4] < helloVersion:
		return hello{}, nil, errOldVersion
	case len(b) < helloSize:
		return hello{}, nil, errHello
	}
	h = hello{path: b[5], limit: wire.Limit(b[7]), generation: binary.BigEndian.Uint32(b[8:]), link: binary.BigEndian.Uint64(b[12:]),
		queue: binary.BigEndian.Uint32(b[20:]), initiator: decodeRef(b[24:]), target: decodeRef(b[32:])}
	return h, b[helloSize:], nil
}

// settleHello is parseHello for a set-up frame that had a seal, or had none: a frame whose
// seal is missing has changed on its way.
func settleHello(b []byte, sealed bool) (hello, error) {
	h, _, err := parseHello(b)
	if err == nil && !sealed {
		return hello{}, mpa.ErrSeal
	}
	return h, err
}

// paired tells whether the sender has queue pairs of its path.
func (h *hello) paired() bool { return refValid(h.initiator) && refValid(h.target) }
