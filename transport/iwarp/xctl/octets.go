package xctl

import "encoding/binary"

// The records of CapOctets: the receiving side of a connection grants the octets of
// messages to its queues with a sink before they are sent. See Reservation.

// Grant says how many octets of messages the sender may send to queues with a sink of
// the connection in all, and asks for octets back if Keep is less than KeepAll.
//
//	4   8 granted: octets since the connection began, those returned included
//	12  4 keep: what the sender may keep of the octets that it has not used; KeepAll: all
type Grant struct {
	Granted uint64
	Keep    uint32
}

// KeepAll asks for nothing back.
const KeepAll = 1<<32 - 1

func (g Grant) encode() (Type, body) {
	return TypeGrant, body{uint32(g.Granted >> 32), uint32(g.Granted), g.Keep}
}

// Return gives octets back that were granted and will not be used. It answers each
// Grant that asks for octets, and comes with Want when the sender's next message needs
// more than it has.
//
//	4   8 returned: octets since the connection began
//	12  4 want: how many the sender needs to go on; 0: it asks for none
type Return struct {
	Returned uint64
	Want     uint32
}

func (r Return) encode() (Type, body) {
	return TypeReturn, body{uint32(r.Returned >> 32), uint32(r.Returned), r.Want}
}

// Full says that what messages of a kind are for has no room, or has room again. What a
// kind is the programs have agreed on. A Full precedes every Grant that is made after it.
//
//	4   4 tag
//	8   1 1: no room, 0: room
//	9   3 0
type Full struct {
	Tag uint32
	On  bool
}

func (f Full) key() uint32 { return f.Tag }

func (f Full) encode() (Type, body) {
	on := uint32(0)
	if f.On {
		on = 1 << 24
	}
	return TypeFull, body{f.Tag, on}
}

// Grant decodes a GRANT.
func (r *Records) Grant() Grant { return Grant{binary.BigEndian.Uint64(r.body), r.word(8)} }

// Return decodes a RETURN.
func (r *Records) Return() Return { return Return{binary.BigEndian.Uint64(r.body), r.word(8)} }

// Full decodes a FULL.
func (r *Records) Full() Full { return Full{r.word(0), r.body[4] != 0} }
