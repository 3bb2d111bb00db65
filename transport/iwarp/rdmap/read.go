package rdmap

import (
	"encoding/binary"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// ReadRequestLen is the length of a Read Request's header.
const ReadRequestLen = 28

// ReadRequest is the header of an RDMA Read Request, RFC 5040 section 4.4. The
// sink is the requester's memory; its two fields come back in the response.
//
//	0   4 sink STag
//	4   8 sink TO
//	12  4 size
//	16  4 source STag
//	20  8 source TO
type ReadRequest struct {
	SinkSTag   uint32
	SinkTO     uint64
	Size       uint32 // 0: no STag or TO is looked at
	SourceSTag uint32
	SourceTO   uint64
}

// AppendTo appends the header's 28 octets to b.
func (r ReadRequest) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.SourceSTag)
	return binary.BigEndian.AppendUint64(b, r.SourceTO)
}

// Decode reads b, which is the whole payload of a Read Request's segment. It
// returns ddp.ErrShort if that is too short and CauseStreamCatastrophic if it is too long.
func (r *ReadRequest) Decode(b []byte) error {
	if err := exactly(b, ReadRequestLen); err != nil {
		return err
	}
	r.SinkSTag = binary.BigEndian.Uint32(b)
	r.SinkTO = binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SourceSTag = binary.BigEndian.Uint32(b[16:])
	r.SourceTO = binary.BigEndian.Uint64(b[20:])
	return nil
}

// After is what remains of the request when n octets of it are answered, as a
// Terminate tells it (RFC 5040 section 4.8). n is at most Size.
func (r ReadRequest) After(n uint32) ReadRequest {
	r.SinkTO += uint64(n)
	r.SourceTO += uint64(n)
	r.Size -= n
	return r
}

// exactly checks the length of a payload that is a header of n octets.
func exactly(b []byte, n int) error {
	switch {
	case len(b) < n:
		return ddp.ErrShort
	case len(b) > n:
		return CauseStreamCatastrophic
	}
	return nil
}
