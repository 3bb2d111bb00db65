package mpa

import "encoding/binary"

// MaxMarkers returns how many markers an FPDU with n octets of content can
// carry at most, the one in front of it included.
func MaxMarkers(n int) int {
	const run = MarkerInterval - MarkerLen
	return (n+run-1)/run + 1
}

// MarkerWriter makes FPDUs for a peer that asks for markers (RFC 5044 section
// 4.3). It counts the octets of the stream, so all FPDUs of a direction pass
// through one of them in their order, from the first; the zero value stands at
// the start of the stream.
//
// A marker stands at every position that is a multiple of MarkerInterval:
//
//	|0                   1           |        2                   3  |
//	+--------------------------------+-------------------------------+
//	|         Reserved, zero         |            FPDUPTR            |
//	+--------------------------------+-------------------------------+
//
// FPDUPTR is the distance back to the ULPDU_Length of the FPDU around it, or
// zero before an FPDU. All is a multiple of four, so a marker splits no word.
type MarkerWriter struct {
	pos int // position in the stream modulo MarkerInterval
}

// Append appends the FPDU with the given content, see AppendContent, with its
// markers: one that is due in front of it, those inside, one that is due before
// the CRC field. The CRC covers them all; without crc it is zero.
func (w *MarkerWriter) Append(dst, content []byte, crc bool) []byte {
	if len(content)%4 != 0 {
		panic("mpa: content is padded")
	}
	start := len(dst) // start of the octets that the CRC covers
	if w.pos == 0 {
		dst = w.mark(dst, 0)
	}
	first := len(dst) // ULPDU_Length
	for len(content) > 0 {
		n := min(len(content), MarkerInterval-w.pos)
		dst = append(dst, content[:n]...)
		content = content[n:]
		if w.pos += n; w.pos == MarkerInterval {
			dst = w.mark(dst, len(dst)-first)
		}
	}
	dst = appendCRC(dst, dst[start:], crc)
	w.pos = (w.pos + CRCLen) % MarkerInterval
	return dst
}

func (w *MarkerWriter) mark(dst []byte, back int) []byte {
	w.pos = MarkerLen
	return binary.BigEndian.AppendUint32(dst, uint32(uint16(back)))
}

// markerOctet takes one octet of a marker, and looks at it with the last. One
// that precedes an FPDU belongs to it. The reserved half is ignored, though
// the CRC covers it.
func (p *Parser) markerOctet(c byte) {
	p.marker[p.pos] = c
	if p.pos++; p.pos < MarkerLen {
		return
	}
	p.bad = p.bad || binary.BigEndian.Uint16(p.marker[2:]) != p.back
	if p.CRC {
		p.sum = UpdateCRC(p.sum, p.marker[:])
	}
	if len(p.buf) > 0 {
		p.back += MarkerLen
	}
}

// advance moves on by n octets of an FPDU. An FPDU of more than MaxULPDU can
// pass the reach of FPDUPTR, which then has the low bits of the distance.
func (p *Parser) advance(n int) {
	p.pos = (p.pos + n) % MarkerInterval
	p.back += uint16(n)
}
