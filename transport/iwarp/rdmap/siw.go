package rdmap

// Hints is what a receiver knows that helps to tell siw's layout from the RFC's
// in a Terminate without headers.
type Hints struct {
	Sent  bool // we have sent an FPDU
	First bool // the Terminate is the first FPDU of a peer that is the initiator
}

// siwLayout reports whether a Terminate that begins with the octets of c and has
// comes from Linux's siw on a little-endian host. That driver declares the
// control word as bit fields in the wrong order (struct iwarp_terminate in
// drivers/infiniband/sw/siw/iwarp.h): the two nibbles of the first octet are
// swapped, and M, D and R are bits 0 to 2 of the third.
func siwLayout(c Cause, has byte, hints Hints) bool {
	switch {
	case has&0x07 != 0:
		return true
	case has&(terminateLen|terminateDDP|terminateRead) != 0:
		return false
	}
	other := swapped(c)
	if c.registered() != other.registered() {
		return other.registered()
	}
	// Both readings make sense.
	switch other {
	case CauseVersion, CauseOpcode:
		return hints.Sent // the other reading is of connection set-up
	case CauseMPAIRD, CauseMPARTR:
		return hints.First
	}
	return false
}

// swapped is c with layer and error type exchanged.
func swapped(c Cause) Cause {
	return c&0x00ff | c>>4&0x0f00 | c<<4&0xf000
}
