package mpa

import "encoding/binary"

// wordLen is the first aligned word of an FPDU: ULPDU_Length and two octets of
// the ULPDU, or of PAD where it is shorter.
const wordLen = 4

// Parser takes the stream of FPDUs of one direction apart. It starts with the
// octet that follows the Request or Reply; the zero value is ready, for a
// stream without CRC and markers. It holds no more than one FPDU.
type Parser struct {
	// CRC and Markers say whether the connection has them, see Settled. They
	// are set before the first call of Feed.
	CRC, Markers bool

	buf    []byte          // octets of the FPDU received so far, without markers
	sum    uint32          // CRC of buf and of the FPDU's markers, without the CRC field
	back   uint16          // distance from ULPDU_Length to here, as in FPDUPTR
	pos    int             // position in the stream modulo MarkerInterval
	marker [MarkerLen]byte // the marker at pos
	bad    bool            // a marker of this FPDU points elsewhere
	err    error
}

// Feed takes the next octets of the stream, whole FPDUs or not, and calls
// deliver for each ULPDU that they complete, after its checks (RFC 5044 section
// 6): a ULPDU too short for its DDP header is refused at sight with ErrLength,
// then a whole FPDU with ErrCRC, or else with ErrMarker. The ULPDU is valid
// during the call. After an error, deliver's own included, nothing more is
// delivered: Feed returns that error again.
func (p *Parser) Feed(b []byte, deliver func(ulpdu []byte) error) error {
	for len(b) > 0 && p.err == nil {
		if p.Markers && p.pos < MarkerLen {
			p.markerOctet(b[0])
			b = b[1:]
			continue
		}
		// A run ends with the stage of the FPDU and before the next marker.
		end, checked := p.stage()
		n := min(len(b), end-len(p.buf))
		if p.Markers {
			n = min(n, MarkerInterval-p.pos)
			p.advance(n)
		}
		if p.CRC && checked {
			p.sum = UpdateCRC(p.sum, b[:n])
		}
		p.buf = append(p.buf, b[:n]...)
		b = b[n:]
		if len(p.buf) == end {
			p.err = p.staged(deliver)
		}
	}
	return p.err
}

// Partial reports whether the stream stands inside an FPDU, which an end of the
// stream would cut off.
func (p *Parser) Partial() bool { return len(p.buf) > 0 }

// stage returns how long buf is at the end of the part that is being collected:
// the first word, the rest of the content, the CRC field. Only the last is
// not checked itself.
func (p *Parser) stage() (end int, checked bool) {
	if len(p.buf) < wordLen {
		return wordLen, true
	}
	content := ContentLen(p.length())
	if len(p.buf) < content {
		return content, true
	}
	return content + CRCLen, false
}

func (p *Parser) length() int { return int(binary.BigEndian.Uint16(p.buf)) }

// staged looks at what a completed stage has brought.
func (p *Parser) staged(deliver func(ulpdu []byte) error) error {
	n := p.length()
	switch len(p.buf) {
	case wordLen:
		if n < MinULPDU(p.buf[HeaderLen]) {
			return ErrLength
		}
	case ContentLen(n) + CRCLen:
		if p.CRC && GetCRC(p.buf[ContentLen(n):]) != p.sum {
			return ErrCRC
		}
		if p.bad {
			return ErrMarker
		}
		ulpdu := p.buf[HeaderLen : HeaderLen+n]
		p.buf, p.sum, p.back = p.buf[:0], 0, 0
		return deliver(ulpdu)
	}
	return nil
}
