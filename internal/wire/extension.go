package wire

import "encoding/binary"

// Extension types (net/rds/rds.h, RDS_EXTHDR_*).
const (
	ExtNone        = 0
	ExtVersion     = 1
	ExtRDMA        = 2
	ExtRDMADest    = 3 // never sent over TCP to Linux, whose receivers die of it
	ExtRDMABytes   = 4 // byte count, direction (1 write, 2 read), 3 bytes of padding
	ExtPaths       = 5 // NPATHS
	ExtGeneration  = 6 // GEN_NUM
	ExtCapBits     = 7 // Oracle's kernels only
	ExtSourceIndex = 8 // SPORT_IDX: the TCP source port modulo 8 is the path

	// ExtLimit is ours: an octet that is 0, and a Limit. It comes last, for whoever does not know
	// it ends the walk there: Linux, and nodes of earlier versions.
	ExtLimit = 16
)

// extLength is the implied body length of each type (net/rds/message.c,
// rds_exthdr_size, of the kernels that know the most types). Types absent here
// have none: the walk goes on at the next byte, as Linux's does. Linux 6.1 has
// no length for types 4, 7 and 8 either and walks into their bodies.
var extLength = [17]uint8{
	ExtVersion:     4,
	ExtRDMA:        4,
	ExtRDMADest:    8,
	ExtRDMABytes:   8,
	ExtPaths:       2,
	ExtGeneration:  4,
	ExtCapBits:     4,
	ExtSourceIndex: 1,
	ExtLimit:       2,
}

// Limit is the longest payload that a node takes, in units of LimitUnit, rounded down. 0: the node
// has not said it.
type Limit uint8

const (
	LimitUnit          = 4 << 10
	LimitAll     Limit = 255 // MaxPayload: all that RDS has
	limitLargest       = LimitAll - 1
	limitLeast         = CongestionMapSize / LimitUnit // every node takes a congestion map
)

// LimitOf is the limit of a node that takes payloads of up to n octets, LimitUnit at least.
func LimitOf(n int) Limit {
	if n >= MaxPayload {
		return LimitAll
	}
	return min(Limit(n/LimitUnit), limitLargest)
}

// Octets is the longest payload.
func (l Limit) Octets() int {
	if l == 0 || l == LimitAll {
		return MaxPayload
	}
	return int(max(l, limitLeast)) * LimitUnit
}

// Handshake is what the extensions of a probe or its pong say.
type Handshake struct {
	HasPaths    bool
	Paths       uint16
	Generation  uint32 // 0: not stated
	SourceIndex bool
	Limit       Limit // 0: not stated, as that of a node that takes everything
}

// Put overwrites the extension area with what hs states: NPATHS, GEN_NUM, and
// SPORT_IDX last with a zero body, so that Linux 6.1, which has no length for
// it and takes the body for the next type, has read the others by then and
// stops there; behind it our LIMIT.
func (hs Handshake) Put(area *[ExtensionSize]byte) {
	*area = [ExtensionSize]byte{}
	b := area[:0]
	if hs.HasPaths {
		b = binary.BigEndian.AppendUint16(append(b, ExtPaths), hs.Paths)
	}
	if hs.Generation != 0 {
		b = binary.BigEndian.AppendUint32(append(b, ExtGeneration), hs.Generation)
	}
	if hs.SourceIndex {
		b = append(b, ExtSourceIndex, 0)
	}
	if hs.Limit != 0 {
		_ = append(b, ExtLimit, 0, byte(hs.Limit))
	}
}

// extension returns the type and the body of the extension at pos and moves pos
// behind it (net/rds/message.c, rds_message_next_extension). Unknown types below
// 16 have no body; type 0, an unknown type of 16 or more and an entry that would pass the
// end stop the walk, as ExtNone.
func extension(area *[ExtensionSize]byte, pos *int) (typ uint8, body []byte) {
	at := *pos
	if at >= ExtensionSize {
		return ExtNone, nil
	}
	typ = area[at]
	if typ == ExtNone || int(typ) >= len(extLength) {
		return ExtNone, nil
	}
	end := at + 1 + int(extLength[typ])
	if end > ExtensionSize {
		return ExtNone, nil
	}
	if *pos = end; typ == ExtLimit { // others do not look behind it
		*pos = ExtensionSize
	}
	return typ, area[at+1 : end]
}

// ParseHandshake walks an extension area and collects what concerns the
// handshake. Of several entries of one type the last one counts.
func ParseHandshake(area *[ExtensionSize]byte) Handshake {
	var hs Handshake
	for pos := 0; ; {
		typ, body := extension(area, &pos)
		switch typ {
		case ExtNone:
			return hs
		case ExtPaths:
			hs.HasPaths, hs.Paths = true, binary.BigEndian.Uint16(body)
		case ExtGeneration:
			hs.Generation = binary.BigEndian.Uint32(body)
		case ExtSourceIndex:
			hs.SourceIndex = true
		case ExtLimit:
			hs.Limit = Limit(body[1])
		}
	}
}
