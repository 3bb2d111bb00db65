package xctl

import (
	"fmt"
	"strings"
)

// Caps is a set of capabilities, as a [Block] carries it.
type Caps uint16

// The capabilities. The first two are roles: what the sender of the block does.
// The others hold for both directions or not at all.
const (
	CapTarget     Caps = 1 << iota // takes messages for shared receive queues
	CapInitiator                   // sends messages to shared receive queues
	CapCredit                      // acknowledgements and limits per queue
	CapRNR                         // a queue that is not ready stops alone, and replays
	CapSoftRead                    // a bad Read or Atomic costs itself, not the connection
	CapSoftWrite                   // a bad Write costs itself, not the connection
	CapPing                        // liveness by PING and PONG
	CapInterleave                  // segments of several queues may alternate
	CapBigFPDU                     // FPDUs beyond the TCP segment, up to Block.MaxULPDU
	CapImmediate                   // immediate data, RFC 7306 section 6
	CapAtomics                     // atomic operations, RFC 7306 section 5
	CapOctets                      // messages to queues with a sink within GRANTs
	CapRefused                     // REFUSED records
	CapProtection                  // tagged offsets name a queue, see TaggedOffset
	CapQP                          // messages to queues without a sink name a queue pair of the receiver's, see QPData

	capRoles = CapTarget | CapInitiator
	capAll   = CapQP<<1 - 1
)

var capNames = [...]string{"target", "initiator", "credit", "RNR", "soft reads", "soft writes", "ping", "interleave", "big FPDUs", "immediate", "atomics", "octets", "refused", "protection", "QP numbers"}

// Has reports whether all of want are in the set.
func (c Caps) Has(want Caps) bool { return c&want == want }

// String names the members.
func (c Caps) String() string {
	var names []string
	for i, name := range capNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := c &^ capAll; rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint16(rest)))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// mirrored is c as the peer sees it: its target is our initiator.
func (c Caps) mirrored() Caps {
	m := c &^ capRoles
	if c.Has(CapTarget) {
		m |= CapInitiator
	}
	if c.Has(CapInitiator) {
		m |= CapTarget
	}
	return m
}

// consistent takes out what cannot be without another: messages for shared
// receive queues, and a replay of them, need acknowledgements, or nothing would
// ever release what the sender keeps.
func (c Caps) consistent() Caps {
	if !c.Has(CapCredit) {
		c &^= capRoles
	}
	if c&capRoles == 0 {
		c &^= CapRNR
	}
	return c
}
