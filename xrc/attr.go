package xrc

import (
	"net/netip"

	"github.com/rds-go/rds/mr"
)

// Mask says which attributes a call changes; the values are those of
// ibv_qp_attr_mask.
type Mask uint32

// The attributes. Type, QKey and Cap are accepted by no transition of these
// types of queue pairs.
const (
	MaskState           Mask = 1 << 0
	MaskCurState        Mask = 1 << 1
	MaskSQDNotify       Mask = 1 << 2
	MaskAccess          Mask = 1 << 3
	MaskPKeyIndex       Mask = 1 << 4
	MaskPort            Mask = 1 << 5
	MaskQKey            Mask = 1 << 6
	MaskAV              Mask = 1 << 7
	MaskPathMTU         Mask = 1 << 8
	MaskTimeout         Mask = 1 << 9
	MaskRetryCount      Mask = 1 << 10
	MaskRNRRetry        Mask = 1 << 11
	MaskRQPSN           Mask = 1 << 12
	MaskMaxRdAtomic     Mask = 1 << 13
	MaskAltPath         Mask = 1 << 14
	MaskMinRNRTimer     Mask = 1 << 15
	MaskSQPSN           Mask = 1 << 16
	MaskMaxDestRdAtomic Mask = 1 << 17
	MaskPathMigState    Mask = 1 << 18
	MaskCap             Mask = 1 << 19
	MaskDestQPN         Mask = 1 << 20
	MaskRateLimit       Mask = 1 << 25

	allMask = MaskRateLimit | (MaskDestQPN<<1 - 1)
)

// AddressVector is the way to the peer.
type AddressVector struct {
	Host netip.Addr
	Port uint8 // port of this device
}

// MigState is that of the alternate path, with the values of ibv_mig_state.
type MigState uint8

// The states of the alternate path.
const (
	Migrated MigState = iota
	Rearm
	Armed
)

// Caps are what a queue pair can hold, as ibv_qp_cap. Of a target all are 0.
type Caps struct{ MaxSend, MaxReceive, MaxSendSGE, MaxReceiveSGE, MaxInline int }

// Attr are the attributes of a queue pair, as ibv_qp_attr has them.
type Attr struct {
	State       State
	CurState    State // state that the caller takes the queue pair to be in
	PathMTU     int   // octets
	DestQPN     uint32
	RQPSN       uint32    // 24 bits
	SQPSN       uint32    // 24 bits
	Access      mr.Rights // what requests of the peer may do; also the upper bound for the rights of regions
	AV, AltAV   AddressVector
	PathMig     MigState
	PKeyIndex   uint16
	AltPKey     uint16
	Port        uint8
	MaxRdAtomic int // reads and atomics of this side at a time
	// MaxDestRdAtomic is that of the peer, over all receive queues behind a
	// target together. 0 forbids reads and atomics, not sends and writes.
	MaxDestRdAtomic int
	MinRNRTimer     uint8 // code 0 to 31; 0 is the longest, 655.36 ms
	Timeout         uint8 // 4.096 us << Timeout; 0: none
	AltTimeout      uint8
	RetryCount      uint8 // 0 to 7; 7 is seven
	RNRRetry        uint8 // 0 to 7; 7 is for ever
	SQDNotify       bool
}

// check is about the values of what m names.
func (a *Attr) check(m Mask, old *Attr, c *Config) error {
	port := old.Port
	if m&MaskPort != 0 {
		port = a.Port
	}
	switch {
	case m&MaskPort != 0 && (a.Port == 0 || int(a.Port) > c.Ports):
		return fieldError("Attr.Port", a.Port)
	case m&MaskAV != 0 && a.AV.Port != port:
		return fieldError("Attr.AV.Port", a.AV.Port)
	case m&MaskAltPath != 0 && (a.AltAV.Port == 0 || int(a.AltAV.Port) > c.Ports):
		return fieldError("Attr.AltAV.Port", a.AltAV.Port)
	case m&MaskAltPath != 0 && a.AltTimeout > 31:
		return fieldError("Attr.AltTimeout", a.AltTimeout)
	case m&MaskPathMTU != 0 && (a.PathMTU < 256 || a.PathMTU > c.MTU):
		return fieldError("Attr.PathMTU", a.PathMTU)
	case m&MaskTimeout != 0 && a.Timeout > 31:
		return fieldError("Attr.Timeout", a.Timeout)
	case m&MaskMinRNRTimer != 0 && a.MinRNRTimer > 31:
		return fieldError("Attr.MinRNRTimer", a.MinRNRTimer)
	case m&MaskRetryCount != 0 && a.RetryCount > 7:
		return fieldError("Attr.RetryCount", a.RetryCount)
	case m&MaskRNRRetry != 0 && a.RNRRetry > 7:
		return fieldError("Attr.RNRRetry", a.RNRRetry)
	case m&MaskMaxRdAtomic != 0 && (a.MaxRdAtomic < 0 || a.MaxRdAtomic > c.RdAtomic):
		return fieldError("Attr.MaxRdAtomic", a.MaxRdAtomic)
	case m&MaskMaxDestRdAtomic != 0 && (a.MaxDestRdAtomic < 0 || a.MaxDestRdAtomic > c.RdAtomic):
		return fieldError("Attr.MaxDestRdAtomic", a.MaxDestRdAtomic)
	case m&MaskPathMigState != 0 && a.PathMig > Armed:
		return fieldError("Attr.PathMig", a.PathMig)
	case m&MaskAccess != 0 && a.Access&^accessRights != 0:
		return fieldError("Attr.Access", a.Access)
	}
	return nil
}

const accessRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

// set takes over what m names, numbers cut to 24 bits.
func (a *Attr) set(m Mask, from *Attr) {
	if m&MaskAccess != 0 {
		a.Access = from.Access
	}
	if m&MaskPKeyIndex != 0 {
		a.PKeyIndex = from.PKeyIndex
	}
	if m&MaskPort != 0 {
		a.Port = from.Port
	}
	if m&MaskAV != 0 {
		a.AV = from.AV
	}
	if m&MaskAltPath != 0 {
		a.AltAV, a.AltPKey, a.AltTimeout = from.AltAV, from.AltPKey, from.AltTimeout
	}
	if m&MaskPathMTU != 0 {
		a.PathMTU = from.PathMTU
	}
	if m&MaskDestQPN != 0 {
		a.DestQPN = from.DestQPN & maxNumber
	}
	if m&MaskRQPSN != 0 {
		a.RQPSN = from.RQPSN & maxNumber
	}
	if m&MaskSQPSN != 0 {
		a.SQPSN = from.SQPSN & maxNumber
	}
	if m&MaskTimeout != 0 {
		a.Timeout = from.Timeout
	}
	if m&MaskRetryCount != 0 {
		a.RetryCount = from.RetryCount
	}
	if m&MaskRNRRetry != 0 {
		a.RNRRetry = from.RNRRetry
	}
	if m&MaskMaxRdAtomic != 0 {
		a.MaxRdAtomic = from.MaxRdAtomic
	}
	if m&MaskMaxDestRdAtomic != 0 {
		a.MaxDestRdAtomic = from.MaxDestRdAtomic
	}
	if m&MaskMinRNRTimer != 0 {
		a.MinRNRTimer = from.MinRNRTimer
	}
	if m&MaskPathMigState != 0 {
		a.PathMig = from.PathMig
	}
	if m&MaskSQDNotify != 0 {
		a.SQDNotify = from.SQDNotify
	}
}
