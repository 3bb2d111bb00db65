package mpa

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC32c of content, from ULPDU_Length to the end of PAD with
// the markers between (RFC 5044 section 4.4).
func CRC(content []byte) uint32 { return crc32.Update(0, castagnoli, content) }

// UpdateCRC returns the CRC of what sum is the CRC of, followed by more. The
// CRC of nothing is 0.
func UpdateCRC(sum uint32, more []byte) uint32 { return crc32.Update(sum, castagnoli, more) }

// PutCRC writes a CRC into the first four octets of b, which is the one place in
// MPA where the least significant octet comes first.
func PutCRC(b []byte, sum uint32) { binary.LittleEndian.PutUint32(b, sum) }

// GetCRC reads a CRC from the first four octets of b.
func GetCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// appendCRC ends the FPDU with this content: zeros if there is no CRC.
func appendCRC(dst, content []byte, crc bool) []byte {
	var sum uint32
	if crc {
		sum = CRC(content)
	}
	return binary.LittleEndian.AppendUint32(dst, sum)
}
