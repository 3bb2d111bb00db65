package rdmap

import (
	"errors"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// Cause is why a stream ends, as a Terminate tells it: the layer in bits 15..12,
// the error type in 11..8 and the error code in 7..0 (RFC 5040 section 4.8).
// The registry of its values is RFC 6580 section 3.
type Cause uint16

// Layers of a cause.
const (
	LayerRDMAP = 0
	LayerDDP   = 1
	LayerMPA   = 2 // the RFCs say LLP
)

// Causes of RDMAP, RFC 5040 section 4.8.
const (
	CauseCatastrophic Cause = 0x0000 // local failure

	// Remote protection: what a Read, an Atomic or an invalidation asked for.
	CauseInvalidSTag   Cause = 0x0100
	CauseBounds        Cause = 0x0101
	CauseAccess        Cause = 0x0102
	CauseNotAssociated Cause = 0x0103
	CauseTOWrap        Cause = 0x0104
	CauseNotOurs       Cause = 0x0109 // STag of another stream cannot be invalidated
	CauseProtection    Cause = 0x01ff // unspecified

	// Remote operation.
	CauseVersion            Cause = 0x0205
	CauseOpcode             Cause = 0x0206 // unexpected
	CauseStreamCatastrophic Cause = 0x0207 // catastrophic, this stream only
	CauseGlobalCatastrophic Cause = 0x0208 // catastrophic, all streams
	CauseInvalidation       Cause = 0x0209 // STag cannot be invalidated
	CauseOperation          Cause = 0x02ff // unspecified
)

// Causes of DDP, RFC 5041 section 7.2. Each is LayerDDP with a ddp.Error.
const (
	CauseDDPCatastrophic    = ddpCause | Cause(ddp.ErrCatastrophic)
	CauseDDPInvalidSTag     = ddpCause | Cause(ddp.ErrInvalidSTag)
	CauseDDPBounds          = ddpCause | Cause(ddp.ErrBounds)
	CauseDDPNotAssociated   = ddpCause | Cause(ddp.ErrNotAssociated)
	CauseDDPTOWrap          = ddpCause | Cause(ddp.ErrTOWrap)
	CauseDDPTaggedVersion   = ddpCause | Cause(ddp.ErrTaggedVersion)
	CauseDDPInvalidQN       = ddpCause | Cause(ddp.ErrInvalidQN)
	CauseDDPNoBuffer        = ddpCause | Cause(ddp.ErrNoBuffer)
	CauseDDPMSNRange        = ddpCause | Cause(ddp.ErrMSNRange)
	CauseDDPInvalidMO       = ddpCause | Cause(ddp.ErrInvalidMO)
	CauseDDPTooLong         = ddpCause | Cause(ddp.ErrTooLong)
	CauseDDPUntaggedVersion = ddpCause | Cause(ddp.ErrUntaggedVersion)

	ddpCause Cause = LayerDDP << 12
)

// Causes of MPA, RFC 5044 section 8 and RFC 6581 section 8.
const (
	CauseMPALost    Cause = 0x2001 // the TCP connection is gone
	CauseMPACRC     Cause = 0x2002
	CauseMPAFraming Cause = 0x2003 // marker and length disagree
	CauseMPAStart   Cause = 0x2004 // bad Request or Reply frame
	CauseMPALocal   Cause = 0x2005 // catastrophic
	CauseMPAIRD     Cause = 0x2006 // insufficient IRD
	CauseMPARTR     Cause = 0x2007 // no matching RTR
)

// Layer is the layer that found the error.
func (c Cause) Layer() uint8 { return uint8(c >> 12) }

// Type is the error type within the layer.
func (c Cause) Type() uint8 { return uint8(c>>8) & 0xf }

// Code is the error code within the type.
func (c Cause) Code() uint8 { return uint8(c) }

// Error implements error.
func (c Cause) Error() string { return "rdmap: " + c.String() }

// Is makes errors.Is find the ddp.Error that a cause of that layer stands for.
func (c Cause) Is(target error) bool {
	e, ok := target.(ddp.Error)
	return ok && c == ddpCause|Cause(e)
}

// CauseOf is the cause that tells err to the peer: err itself or what it wraps
// if that is a Cause, a ddp.Error, or an mpa.Error with a code. Whatever else goes
// wrong is a failure of this side.
func CauseOf(err error) Cause {
	var c Cause
	var d ddp.Error
	var m *mpa.Error
	switch {
	case errors.As(err, &c):
		return c
	case errors.As(err, &d):
		return ddpCause | Cause(d)
	case errors.As(err, &m) && m.Code != 0:
		return LayerMPA<<12 | Cause(m.Code)
	case errors.Is(err, ddp.ErrShort):
		return CauseMPAFraming
	case errors.Is(err, ddp.ErrModel):
		return CauseOpcode
	case errors.Is(err, ddp.ErrMixed):
		return CauseStreamCatastrophic
	}
	return CauseCatastrophic
}

var causeNames = map[Cause]string{
	CauseInvalidSTag:        "invalid STag",
	CauseBounds:             "base or bounds violation",
	CauseAccess:             "access rights violation",
	CauseNotAssociated:      "STag not associated with the stream",
	CauseTOWrap:             "TO wrap",
	CauseNotOurs:            "STag of another stream cannot be invalidated",
	CauseProtection:         "unspecified protection error",
	CauseVersion:            "invalid RDMAP version",
	CauseOpcode:             "unexpected opcode",
	CauseStreamCatastrophic: "catastrophic error of the stream",
	CauseGlobalCatastrophic: "catastrophic error of all streams",
	CauseInvalidation:       "STag cannot be invalidated",
	CauseOperation:          "unspecified operation error",
	CauseMPALost:            "TCP connection lost",
	CauseMPACRC:             "CRC error",
	CauseMPAFraming:         "marker and length disagree",
	CauseMPAStart:           "bad Request or Reply frame",
	CauseMPALocal:           "local catastrophic error",
	CauseMPAIRD:             "insufficient IRD",
	CauseMPARTR:             "no matching RTR",
}

// registered reports whether the registry has a name for c.
func (c Cause) registered() bool { return c.name() != "" }

func (c Cause) name() string {
	switch {
	case c.Layer() == LayerRDMAP && c.Type() == 0:
		return "local catastrophic error" // local catastrophic errors have any code
	case c.Layer() == LayerDDP:
		if e := ddp.Error(c &^ ddpCause); e.Known() {
			return e.String()
		}
	}
	return causeNames[c]
}

// String is layer, type and code, and the name there is for them.
func (c Cause) String() string {
	layer := "layer"
	switch c.Layer() {
	case LayerRDMAP:
		layer = "RDMAP"
	case LayerDDP:
		layer = "DDP"
	case LayerMPA:
		layer = "MPA"
	}
	s := fmt.Sprintf("%s %x/%x/%02x", layer, c.Layer(), c.Type(), c.Code())
	if name := c.name(); name != "" {
		s += " " + name
	}
	return s
}
