package rdma

import (
	"encoding/binary"
	"errors"

	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// hello is the private data of both sides' set-up frames, behind the block of
// shared receive queues:
//
//	 0        4         5      6   8            12
//	+--------+---------+------+---+------------+
//	| "RDSx" | version | path | 0 | generation |
//	+--------+---------+------+---+------------+
//
// generation is left out by a side that does not tell it.
type hello struct {
	path       uint8  // index of the path that the link is meant for
	generation uint32 // generation of the node that sends the hello; 0: not told
}

// From version 2 on the set-up frame that the hello is in has a seal (mpa.Params.Seal).
//
// version 0 is a question: whoever sends it wants no link, and hears whether the other
// side would give it one. The answer is an MPA Reply that rejects, with a hello of a
// later version; a rejection without one means no. A side that does not know questions
// accepts the connection in MPA, with its own hello, and ends it when it reads version
// 0: it makes no link of it either, and its hello is the answer.
const (
	helloMagic   = 0x52445378 // "RDSx"
	helloAsks    = 0
	helloFirst   = 1 // first version that is not a question
	helloSealed  = 2 // first version whose frame has a seal
	helloVersion = 2
	helloSize    = 8
	helloFull    = 12 // size of a hello with a generation
)

// errHello: who is there speaks iWARP with shared queues, but not RDS.
var errHello = errors.New("rdma: the peer does not speak RDS")

func (h hello) bytes() []byte { return h.say(helloVersion) }

func (h hello) say(version uint8) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, helloFull), helloMagic)
	return binary.BigEndian.AppendUint32(append(b, version, h.path, 0, 0), h.generation)
}

// asks tells whether the private data of a Request is a question.
func asks(b []byte) bool {
	return len(b) >= helloSize && binary.BigEndian.Uint32(b) == helloMagic && b[4] == helloAsks
}

// parseHello takes what a peer of this version or a later one says: more octets
// may follow.
func parseHello(b []byte) (hello, error) {
	if len(b) < helloSize || binary.BigEndian.Uint32(b) != helloMagic || b[4] < helloFirst {
		return hello{}, errHello
	}
	h := hello{path: b[5]}
	if len(b) >= helloFull {
		h.generation = binary.BigEndian.Uint32(b[helloSize:])
	}
	return h, nil
}

// settleHello is parseHello for a set-up frame that had a seal, or had none: a frame whose
// seal is missing has changed on its way.
func settleHello(b []byte, sealed bool) (hello, error) {
	h, err := parseHello(b)
	if err == nil && b[4] >= helloSealed && !sealed {
		return hello{}, mpa.ErrSeal
	}
	return h, err
}
