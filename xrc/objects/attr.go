package objects

import (
	"net/netip"

	"github.com/rds-go/rds/mr"
)

// Mask says which attributes a call changes; the values are those of
// ibv_qp_attr_mask. Bits of attributes that have no meaning over TCP are ErrMask, as unknown
// ones: P_Key, port, packet sequence numbers, alternate path and its migration.
type Mask uint32

// The attributes. QKey, Cap and RateLimit are accepted by no transition of these
// types of queue pairs.
const (
	MaskState           Mask = 1 << 0
	MaskCurState        Mask = 1 << 1
	MaskSQDNotify       Mask = 1 << 2
	MaskAccess          Mask = 1 << 3
	MaskQKey            Mask = 1 << 6
	MaskAV              Mask = 1 << 7 // Attr.Host, all that there is of an address vector
	MaskPathMTU         Mask = 1 << 8
	MaskTimeout         Mask = 1 << 9
	MaskRetryCount      Mask = 1 << 10
	MaskRNRRetry        Mask = 1 << 11
	MaskMaxRdAtomic     Mask = 1 << 13
	MaskMinRNRTimer     Mask = 1 << 15
	MaskMaxDestRdAtomic Mask = 1 << 17
	MaskCap             Mask = 1 << 19
	MaskDestQPN         Mask = 1 << 20
	MaskRateLimit       Mask = 1 << 25

	allMask = MaskState | MaskCurState | MaskSQDNotify | MaskAccess | MaskQKey | MaskAV | MaskPathMTU | MaskTimeout |
		MaskRetryCount | MaskRNRRetry | MaskMaxRdAtomic | MaskMinRNRTimer | MaskMaxDestRdAtomic | MaskCap | MaskDestQPN | MaskRateLimit
)

// Attr are the attributes of a queue pair, as ibv_qp_attr has them.
type Attr struct {
	State       State
	CurState    State      // state that the caller takes the queue pair to be in
	PathMTU     int        // octets
	Host        netip.Addr // host of the peer
	DestQPN     uint32     // number of the peer's queue pair, 24 bits
	Access      mr.Rights  // what requests of the peer may do; also the upper bound for the rights of regions
	MaxRdAtomic int        // reads and atomics of this side at a time
	// MaxDestRdAtomic is that of the peer, over all receive queues behind a
	// target together. 0 forbids reads and atomics, not sends and writes.
	MaxDestRdAtomic int
	MinRNRTimer     uint8 // code 0 to 31; 0 is the longest, 655.36 ms
	Timeout         uint8 // 4.096 us << Timeout; 0: none
	RetryCount      uint8 // 0 to 7; 7 is seven
	RNRRetry        uint8 // 0 to 7; 7 is for ever
	SQDNotify       bool
}

// check is about the values of what m names.
func (a *Attr) check(m Mask, c *Config) error {
	switch {
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
	case m&MaskAccess != 0 && a.Access&^accessRights != 0:
		return fieldError("Attr.Access", a.Access)
	}
	return nil
}

// accepts are the rights that requests of the peer may use: the access flags, and to read and for
// atomics a depth.
func (a *Attr) accepts() mr.Rights {
	r := a.Access & (mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic)
	if a.MaxDestRdAtomic == 0 {
		r &= mr.RemoteWrite
	}
	return r
}

const accessRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

// set takes over what m names, the number cut to 24 bits.
func (a *Attr) set(m Mask, from *Attr) {
	take(m&MaskAccess, &a.Access, from.Access)
	take(m&MaskAV, &a.Host, from.Host)
	take(m&MaskPathMTU, &a.PathMTU, from.PathMTU)
	take(m&MaskDestQPN, &a.DestQPN, from.DestQPN&maxNumber)
	take(m&MaskTimeout, &a.Timeout, from.Timeout)
	take(m&MaskRetryCount, &a.RetryCount, from.RetryCount)
	take(m&MaskRNRRetry, &a.RNRRetry, from.RNRRetry)
	take(m&MaskMaxRdAtomic, &a.MaxRdAtomic, from.MaxRdAtomic)
	take(m&MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, from.MaxDestRdAtomic)
	take(m&MaskMinRNRTimer, &a.MinRNRTimer, from.MinRNRTimer)
	take(m&MaskSQDNotify, &a.SQDNotify, from.SQDNotify)
}

// take sets an attribute if the mask names it.
func take[T any](named Mask, attribute *T, to T) {
	if named != 0 {
		*attribute = to
	}
}
