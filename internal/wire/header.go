package wire

import (
	"encoding/binary"
	"errors"
)

// HeaderSize is the length of an RDS header on the wire.
const HeaderSize = 48

// ExtensionSize is the length of the extension area, the last bytes of a header.
const ExtensionSize = 16

// MaxPayload is the largest payload Linux sends: RDS_MAX_MSG_SIZE, 1 MiB.
const MaxPayload = 1 << 20

// Reserved ports, which no socket may bind (net/rds/bind.c).
const (
	PortHost  = 0 // pings go here, pongs come from here
	PortProbe = 1 // path probes come from here, their pongs go here
)

// Flags of a header.
const (
	FlagCongestion    = 0x01 // the payload is a congestion map; valid only as the whole flags byte
	FlagAckRequired   = 0x02 // InfiniBand only: never set, and ignored, over TCP
	FlagRetransmitted = 0x04 // the message was at least partly written on an earlier link of the path
)

// errShortHeader is returned for fewer than HeaderSize bytes.
var errShortHeader = errors.New("wire: short header")

// Header is one RDS header.
//
//	 0        8 sequence   per path and direction; congestion maps carry 0
//	 8        8 ack        0 over TCP
//	16        4 length     payload bytes that follow the header
//	20        2 source port
//	22        2 destination port
//	24        1 flags
//	25        1 credit     0 over TCP
//	26        4 padding    0
//	30        2 checksum   0 over TCP
//	32       16 extensions
type Header struct {
	Sequence   uint64
	Ack        uint64
	Length     uint32
	Sport      uint16
	Dport      uint16
	Flags      uint8
	Credit     uint8
	Padding    uint32
	Checksum   uint16
	Extensions [ExtensionSize]byte
}

// AppendTo appends the header's 48 bytes to b.
func (h *Header) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.Sequence)
	b = binary.BigEndian.AppendUint64(b, h.Ack)
	b = binary.BigEndian.AppendUint32(b, h.Length)
	b = binary.BigEndian.AppendUint16(b, h.Sport)
	b = binary.BigEndian.AppendUint16(b, h.Dport)
	b = append(b, h.Flags, h.Credit)
	b = binary.BigEndian.AppendUint32(b, h.Padding)
	b = binary.BigEndian.AppendUint16(b, h.Checksum)
	return append(b, h.Extensions[:]...)
}

// Put writes the header into the first 48 bytes of b, which must be there.
func (h *Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b, h.Sequence)
	binary.BigEndian.PutUint64(b[8:], h.Ack)
	binary.BigEndian.PutUint32(b[16:], h.Length)
	binary.BigEndian.PutUint16(b[20:], h.Sport)
	binary.BigEndian.PutUint16(b[22:], h.Dport)
	b[24], b[25] = h.Flags, h.Credit
	binary.BigEndian.PutUint32(b[26:], h.Padding)
	binary.BigEndian.PutUint16(b[30:], h.Checksum)
	copy(b[32:HeaderSize], h.Extensions[:])
}

// PutData writes the header of a plain data message into b: no
// acknowledgement, no credit, no extensions.
func PutData(b []byte, sequence uint64, length uint32, sport, dport uint16) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b, sequence)
	clear(b[8:HeaderSize])
	binary.BigEndian.PutUint32(b[16:], length)
	binary.BigEndian.PutUint16(b[20:], sport)
	binary.BigEndian.PutUint16(b[22:], dport)
}

// Decode reads a header from the first 48 bytes of b. Every value is legal
// here; what a value means on a link is the caller's to judge.
func (h *Header) Decode(b []byte) error {
	if len(b) < HeaderSize {
		return errShortHeader
	}
	h.Sequence = binary.BigEndian.Uint64(b)
	h.Ack = binary.BigEndian.Uint64(b[8:])
	h.Length = binary.BigEndian.Uint32(b[16:])
	h.Sport = binary.BigEndian.Uint16(b[20:])
	h.Dport = binary.BigEndian.Uint16(b[22:])
	h.Flags, h.Credit = b[24], b[25]
	h.Padding = binary.BigEndian.Uint32(b[26:])
	h.Checksum = binary.BigEndian.Uint16(b[30:])
	h.Extensions = [ExtensionSize]byte(b[32:HeaderSize])
	return nil
}

// MarkRetransmitted sets the RETRANSMITTED flag in an encoded header.
func MarkRetransmitted(b []byte) { b[24] |= FlagRetransmitted }

// IsCongestion tells whether the payload is a congestion map. As in Linux
// (net/rds/tcp_recv.c) the whole flags byte must equal FlagCongestion.
func (h *Header) IsCongestion() bool { return h.Flags == FlagCongestion }

// Retransmitted tells whether duplicate suppression applies to the message.
func (h *Header) Retransmitted() bool { return h.Flags&FlagRetransmitted != 0 }
