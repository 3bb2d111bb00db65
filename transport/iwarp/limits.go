package iwarp

import "github.com/rds-go/rds/transport/iwarp/mpa"

// maxInline bounds QPConfig.MaxInline, see CreateQP.
const maxInline = 4096

// Limits are what a device can do, as ibv_query_device tells it.
type Limits struct {
	MaxSend    int    // work requests of a send queue
	MaxReceive int    // receive requests of a receive queue
	MaxCQ      int    // entries of a completion queue
	MaxInline  int    // bytes of WorkRequest.Inline
	MaxSGE     int    // pieces of memory of a work request
	MaxMessage uint64 // bytes of a work request
	MaxReads   int    // IRD and ORD that ConnParams may ask for
	MaxIRD     int    // IRD that a peer may ask for
	MaxULPDU   int    // octets of a segment we send
	MaxPrivate int    // octets of ConnParams.Private
	Extensions bool   // atomics and immediate data (RFC 7306)
}

// Limits returns what d can do.
func (d *Device) Limits() Limits {
	return Limits{
		MaxSend:    maxQueue,
		MaxReceive: maxQueue,
		MaxCQ:      maxQueue,
		MaxInline:  maxInline,
		MaxSGE:     MaxSGE,
		MaxMessage: maxMessage,
		MaxReads:   mpa.MaxReads,
		MaxIRD:     maxIRD,
		MaxULPDU:   mpa.MaxULPDU,
		MaxPrivate: mpa.MaxReplyPrivate - mpa.PrefixLen,
		Extensions: !d.cfg.NoExtensions,
	}
}
