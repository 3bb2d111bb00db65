package mpa

import (
	"encoding/binary"
	"strings"
)

// RTR is a set of the messages that can be the first one of a peer-to-peer
// connection, "ready to receive" (RFC 6581 section 9.2). Each is empty.
type RTR uint8

// The kinds.
const (
	RTRSend  RTR = 1 << iota // control flag B; the stack of the responder has to take it from no receive queue
	RTRWrite                 // control flag C
	RTRRead                  // control flag D; the responder answers it, and needs an IRD of 1
)

// String names the kinds of the set.
func (r RTR) String() string {
	var names []string
	for _, k := range [...]struct {
		kind RTR
		name string
	}{{RTRSend, "send"}, {RTRWrite, "write"}, {RTRRead, "read"}} {
		if r&k.kind != 0 {
			names = append(names, k.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// choose returns one kind of the set: the preferred one if it is there, else
// the one that disturbs a responder least. A Read shows itself to the responder
// and takes nothing of its application's; a Write takes nothing either, but
// some cards do not notice it.
func (r RTR) choose(prefer RTR) RTR {
	for _, kind := range [...]RTR{prefer, RTRRead, RTRWrite, RTRSend} {
		if kind != 0 && r&kind == kind {
			return kind
		}
	}
	return 0
}

// Bits of the two halves of a prefix above the numbers.
const (
	prefixPeerToPeer = 0x8000 // A, first half
	prefixSend       = 0x4000 // B, first half
	prefixWrite      = 0x8000 // C, second half
	prefixRead       = 0x4000 // D, second half
	prefixNumber     = 0x3FFF
)

// Prefix stands before the upper layer's private data in an enhanced frame (RFC
// 6581 section 9):
//
//	|0                   1           |        2                   3  |
//	+-+-+----------------------------+-+-+---------------------------+
//	|A|B|            IRD             |C|D|            ORD            |
//	+-+-+----------------------------+-+-+---------------------------+
type Prefix struct {
	IRD        uint16 // RDMA Reads that the sender of the frame can hold, or NotNegotiated
	ORD        uint16 // RDMA Reads that it wants to have under way, or NotNegotiated
	PeerToPeer bool   // A
	RTR        RTR    // B, C, D; without meaning if A is not set
}

// AppendTo appends the prefix. IRD and ORD are at most NotNegotiated.
func (p *Prefix) AppendTo(dst []byte) []byte {
	if p.IRD > prefixNumber || p.ORD > prefixNumber {
		panic("mpa: IRD and ORD have 14 bits")
	}
	first, second := p.IRD, p.ORD
	if p.PeerToPeer {
		first |= prefixPeerToPeer
	}
	if p.RTR&RTRSend != 0 {
		first |= prefixSend
	}
	if p.RTR&RTRWrite != 0 {
		second |= prefixWrite
	}
	if p.RTR&RTRRead != 0 {
		second |= prefixRead
	}
	dst = binary.BigEndian.AppendUint16(dst, first)
	return binary.BigEndian.AppendUint16(dst, second)
}

// DecodePrefix reads the prefix at the front of private data, or fails with
// ErrPrefix.
func DecodePrefix(b []byte) (Prefix, error) {
	if len(b) < PrefixLen {
		return Prefix{}, ErrPrefix
	}
	first, second := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	p := Prefix{
		IRD:        first & prefixNumber,
		ORD:        second & prefixNumber,
		PeerToPeer: first&prefixPeerToPeer != 0,
	}
	if first&prefixSend != 0 {
		p.RTR |= RTRSend
	}
	if second&prefixWrite != 0 {
		p.RTR |= RTRWrite
	}
	if second&prefixRead != 0 {
		p.RTR |= RTRRead
	}
	return p, nil
}
