package wire

import "encoding/binary"

// Memory is what the extensions of a data message say about memory: the key
// that the operation before the message has used, and the region that the
// sender offers to the receiver. Nothing of it may go to Linux over TCP: the
// receiving process dies of RDMA_DEST in a kernel with hardened usercopy.
type Memory struct {
	HasUsed bool
	Used    uint32 // key of the receiver's region
	HasDest bool
	Dest    uint64 // key of the sender's region in the low half, offset in the high one
}

// Put overwrites the extension area with what m states: RDMA, then RDMA_DEST,
// key before offset.
func (m Memory) Put(area *[ExtensionSize]byte) {
	*area = [ExtensionSize]byte{}
	b := area[:0]
	if m.HasUsed {
		b = binary.BigEndian.AppendUint32(append(b, ExtRDMA), m.Used)
	}
	if m.HasDest {
		b = binary.BigEndian.AppendUint32(append(b, ExtRDMADest), uint32(m.Dest))
		_ = binary.BigEndian.AppendUint32(b, uint32(m.Dest>>32))
	}
}

// ParseMemory walks an extension area as ParseHandshake does and collects what
// concerns memory.
func ParseMemory(area *[ExtensionSize]byte) Memory {
	var m Memory
	for pos := 0; ; {
		typ, body := extension(area, &pos)
		switch typ {
		case ExtNone:
			return m
		case ExtRDMA:
			m.HasUsed, m.Used = true, binary.BigEndian.Uint32(body)
		case ExtRDMADest:
			m.HasDest = true
			m.Dest = uint64(binary.BigEndian.Uint32(body[4:]))<<32 | uint64(binary.BigEndian.Uint32(body))
		}
	}
}
