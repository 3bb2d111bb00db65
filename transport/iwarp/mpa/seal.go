package mpa

import (
	"encoding/binary"
	"hash/crc32"
)

// SealLen is the length of a seal.
const SealLen = 8

// sealMagic begins a seal.
const sealMagic = "MPAc"

// A seal is a checksum of a whole set-up frame, which MPA does not protect: its CRC
// begins with the first FPDU. The seal is the end of the frame's private data, so that a
// peer that knows no seals takes it for a part of that:
//
//	|"MPAc", 4 octets|CRC32c of the frame up to here, 4 octets, big-endian|
//
// An initiator seals its Request if Params.Seal is set, a responder seals the Reply to a
// sealed Request.

// seal appends a seal to a whole frame, which has room for it.
func seal(frame []byte) []byte {
	n := binary.BigEndian.Uint16(frame[18:])
	binary.BigEndian.PutUint16(frame[18:], n+SealLen)
	frame = append(frame, sealMagic...)
	return binary.BigEndian.AppendUint32(frame, crc32.Checksum(frame, castagnoli))
}

// unseal tells whether a whole frame ends with a seal. It fails with ErrSeal if the frame
// is not the one that was sealed.
func unseal(frame []byte) (sealed bool, err error) {
	sum := len(frame) - 4
	if sum-len(sealMagic) < FrameLen || string(frame[sum-len(sealMagic):sum]) != sealMagic {
		return false, nil
	}
	if crc32.Checksum(frame[:sum], castagnoli) != binary.BigEndian.Uint32(frame[sum:]) {
		return false, ErrSeal
	}
	return true, nil
}
