package mpa

import "encoding/binary"

// Pad returns how many octets follow a ULPDU of n octets to make its FPDU a
// multiple of four (RFC 5044 section 4.1).
func Pad(n int) int { return -(HeaderLen + n) & 3 }

// ContentLen returns the length of an FPDU of an n-octet ULPDU without the CRC:
// ULPDU_Length, ULPDU and PAD, which is what the CRC covers.
func ContentLen(n int) int { return HeaderLen + n + Pad(n) }

// FPDULen returns the length of an FPDU of an n-octet ULPDU without markers.
func FPDULen(n int) int { return ContentLen(n) + CRCLen }

// MinULPDU returns the length below which a ULPDU that begins with the given
// octet, the DDP control field, has no room for its DDP header.
func MinULPDU(control byte) int {
	if control&0x80 != 0 {
		return MinTagged
	}
	return MinUntagged
}

// AppendContent appends an FPDU without its CRC:
//
//	|0                   1           |        2                   3  |
//	+--------------------------------+-------------------------------+
//	|          ULPDU_Length          |                               |
//	+--------------------------------+                               |
//	|                             ULPDU                              |
//	|                         +--------------------------------------+
//	|                         |           PAD, 0 to 3 octets         |
//	+-------------------------+--------------------------------------+
//
// The ULPDU is at most MaxULPDU octets long, by the callers' segmentation.
func AppendContent(dst, ulpdu []byte) []byte {
	if len(ulpdu) > MaxReceiveULPDU {
		panic("mpa: ULPDU fits its length field")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(ulpdu)))
	dst = append(dst, ulpdu...)
	var zero [3]byte
	return append(dst, zero[:Pad(len(ulpdu))]...)
}

// AppendFPDU appends the FPDU of a ULPDU, with a CRC, or zeros in its place.
func AppendFPDU(dst, ulpdu []byte, crc bool) []byte {
	start := len(dst)
	dst = AppendContent(dst, ulpdu)
	return appendCRC(dst, dst[start:], crc)
}

// MULPDU returns the longest ULPDU whose FPDU fits a TCP segment of emss octets
// (RFC 5044 section 4.5), within the limits that the section sets. A stream
// with markers takes off as many as can fall into one segment.
func MULPDU(emss int, markers bool) int {
	n := emss - (HeaderLen + CRCLen) - emss%4
	if markers {
		n -= MarkerLen * ((emss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(n, minMULPDU), MaxULPDU)
}
