package pcap

import "encoding/binary"

// sum is the Internet checksum of RFC 1071, not complemented, of b behind what
// has been summed before; that was of even length.
func sum(before uint16, b []byte) uint16 {
	s := uint32(before)
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// pseudo is the sum of TCP's pseudo header, RFC 9293 section 3.1.
func pseudo(src, dst [4]byte, n int) uint16 {
	b := append(append(make([]byte, 0, 12), src[:]...), dst[:]...)
	b = append(b, 0, 6)
	return sum(0, binary.BigEndian.AppendUint16(b, uint16(n)))
}
