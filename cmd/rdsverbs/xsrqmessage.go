package main

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// xsrqHeader begins every message of xsrq, big-endian:
//
//	0   4 "XSRQ"
//	4   4 kind
//	8   8 service by which the domain of the answer's queue is found
//	16  4 number of that queue
//	20  4 which queue of the server, from 0
//	24  8 which message of the sender to that queue
//	32  16 address of the sender's host
//
// The answer is the same message with another kind.
type xsrqHeader struct {
	kind    xsrqKind
	service uint64
	answer  uint32
	queue   uint32
	number  uint64
	host    netip.Addr
}

const (
	xsrqHeaderLen = 48
	xsrqMark      = "XSRQ"

	// answerServices is where the ids of services for answers begin.
	answerServices = 1 << 63
)

// xsrqKind is what a message wants.
type xsrqKind uint32

const (
	xsrqPing   xsrqKind = 1
	xsrqStop   xsrqKind = 2 // a ping, after which the queue posts no more receives as long as the sender's host has its service
	xsrqAnswer xsrqKind = 3
)

// put writes the header to the beginning of b.
func (h xsrqHeader) put(b []byte) {
	copy(b, xsrqMark)
	binary.BigEndian.PutUint32(b[4:], uint32(h.kind))
	binary.BigEndian.PutUint64(b[8:], h.service)
	binary.BigEndian.PutUint32(b[16:], h.answer)
	binary.BigEndian.PutUint32(b[20:], h.queue)
	binary.BigEndian.PutUint64(b[24:], h.number)
	host := h.host.As16()
	copy(b[32:], host[:])
}

// parseXsrq reads the header of a message, false if it has none.
func parseXsrq(b []byte) (h xsrqHeader, ok bool) {
	if len(b) < xsrqHeaderLen || string(b[:4]) != xsrqMark {
		return h, false
	}
	return xsrqHeader{
		kind:    xsrqKind(binary.BigEndian.Uint32(b[4:])),
		service: binary.BigEndian.Uint64(b[8:]),
		answer:  binary.BigEndian.Uint32(b[16:]),
		queue:   binary.BigEndian.Uint32(b[20:]),
		number:  binary.BigEndian.Uint64(b[24:]),
		host:    netip.AddrFrom16([16]byte(b[32:])).Unmap(),
	}, true
}

// makeAnswer makes the answer of a message, in place.
func makeAnswer(b []byte) { binary.BigEndian.PutUint32(b[4:], uint32(xsrqAnswer)) }

// answers tells whether b is the answer to the message sent.
func answers(b, sent []byte) bool {
	h, ok := parseXsrq(b)
	return ok && h.kind == xsrqAnswer && len(b) == len(sent) && bytes.Equal(b[8:], sent[8:])
}
