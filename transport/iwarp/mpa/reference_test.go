package mpa

import "encoding/binary"

// walker reads a stream that lies whole in memory, by position.
type walker struct {
	raw     []byte
	pos     int
	markers bool
	start   int // position of the FPDU's first octet, a marker in front of it included
	length  int // position of ULPDU_Length
	bad     bool
}

// take returns the next n octets that are not of markers, or false.
func (w *walker) take(n int) (out []byte, ok bool) {
	for len(out) < n {
		if w.markers && w.pos%512 == 0 {
			if len(w.raw) < w.pos+4 {
				return nil, false
			}
			back := w.pos - w.length
			if w.pos == w.start {
				w.length, back = w.pos+4, 0
			}
			w.bad = w.bad || binary.BigEndian.Uint16(w.raw[w.pos+2:]) != uint16(back)
			w.pos += 4
		}
		if w.pos >= len(w.raw) {
			return nil, false
		}
		out = append(out, w.raw[w.pos])
		w.pos++
	}
	return out, true
}

// walk is what a Parser must find in a stream.
func walk(raw []byte, markers, crc bool) (ulpdus [][]byte, err error) {
	w := walker{raw: raw, markers: markers}
	for {
		w.start, w.length, w.bad = w.pos, w.pos, false
		first, ok := w.take(4)
		if !ok {
			return ulpdus, nil
		}
		n := int(first[0])<<8 | int(first[1])
		if n < 14 || first[2] < 0x80 && n < 18 {
			return ulpdus, ErrLength
		}
		rest, ok := w.take((2+n+3)/4*4 - 4)
		if !ok {
			return ulpdus, nil
		}
		if w.markers && w.pos%512 == 0 { // the marker before the CRC
			if len(raw) < w.pos+4 {
				return ulpdus, nil
			}
			w.bad = w.bad || binary.BigEndian.Uint16(raw[w.pos+2:]) != uint16(w.pos-w.length)
			w.pos += 4
		}
		covered := raw[w.start:w.pos]
		if len(raw) < w.pos+4 {
			return ulpdus, nil
		}
		field := raw[w.pos : w.pos+4]
		w.pos += 4
		switch {
		case crc && binary.LittleEndian.Uint32(field) != CRC(covered):
			return ulpdus, ErrCRC
		case w.bad:
			return ulpdus, ErrMarker
		}
		ulpdus = append(ulpdus, append(first[2:4:4], rest...)[:n])
	}
}
