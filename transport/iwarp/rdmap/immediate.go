package rdmap

import "encoding/binary"

// ImmediateLen is the length of immediate data.
const ImmediateLen = 8

// Immediate is immediate data, RFC 7306 section 6: eight octets that are
// delivered in the order of Sends and take one receive buffer, empty. As a number
// it is big-endian on the wire.
type Immediate uint64

// AppendTo appends the 8 octets to b.
func (d Immediate) AppendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(d))
}

// Decode reads b, which is the whole payload of the segment. It returns
// ddp.ErrShort if that is too short and CauseStreamCatastrophic if it is too long.
func (d *Immediate) Decode(b []byte) error {
	if err := exactly(b, ImmediateLen); err != nil {
		return err
	}
	*d = Immediate(binary.BigEndian.Uint64(b))
	return nil
}
