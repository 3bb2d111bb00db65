//go:build !live

package rdmap

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// The registry of RFC 6580 section 3, row by row.
var causes = []struct {
	cause            Cause
	layer, typ, code uint8
	text             string
	unknown          bool
}{
	{cause: CauseCatastrophic, layer: 0, typ: 0, code: 0, text: "RDMAP 0/0/00 local catastrophic error"},
	{cause: 0x0042, layer: 0, typ: 0, code: 0x42, text: "RDMAP 0/0/42 local catastrophic error"},
	{cause: CauseInvalidSTag, layer: 0, typ: 1, code: 0, text: "RDMAP 0/1/00 invalid STag"},
	{cause: CauseBounds, layer: 0, typ: 1, code: 1, text: "RDMAP 0/1/01 base or bounds violation"},
	{cause: CauseAccess, layer: 0, typ: 1, code: 2, text: "RDMAP 0/1/02 access rights violation"},
	{cause: CauseNotAssociated, layer: 0, typ: 1, code: 3, text: "RDMAP 0/1/03 STag not associated with the stream"},
	{cause: CauseTOWrap, layer: 0, typ: 1, code: 4, text: "RDMAP 0/1/04 TO wrap"},
	{cause: CauseNotOurs, layer: 0, typ: 1, code: 9, text: "RDMAP 0/1/09 STag of another stream cannot be invalidated"},
	{cause: CauseProtection, layer: 0, typ: 1, code: 0xff, text: "RDMAP 0/1/ff unspecified protection error"},
	{cause: CauseVersion, layer: 0, typ: 2, code: 5, text: "RDMAP 0/2/05 invalid RDMAP version"},
	{cause: CauseOpcode, layer: 0, typ: 2, code: 6, text: "RDMAP 0/2/06 unexpected opcode"},
	{cause: CauseStreamCatastrophic, layer: 0, typ: 2, code: 7, text: "RDMAP 0/2/07 catastrophic error of the stream"},
	{cause: CauseGlobalCatastrophic, layer: 0, typ: 2, code: 8, text: "RDMAP 0/2/08 catastrophic error of all streams"},
	{cause: CauseInvalidation, layer: 0, typ: 2, code: 9, text: "RDMAP 0/2/09 STag cannot be invalidated"},
	{cause: CauseOperation, layer: 0, typ: 2, code: 0xff, text: "RDMAP 0/2/ff unspecified operation error"},
	{cause: CauseDDPCatastrophic, layer: 1, typ: 0, code: 0, text: "DDP 1/0/00 local catastrophic error"},
	{cause: CauseDDPInvalidSTag, layer: 1, typ: 1, code: 0, text: "DDP 1/1/00 invalid STag"},
	{cause: CauseDDPBounds, layer: 1, typ: 1, code: 1, text: "DDP 1/1/01 base or bounds violation"},
	{cause: CauseDDPNotAssociated, layer: 1, typ: 1, code: 2, text: "DDP 1/1/02 STag not associated with the stream"},
	{cause: CauseDDPTOWrap, layer: 1, typ: 1, code: 3, text: "DDP 1/1/03 TO wrap"},
	{cause: CauseDDPTaggedVersion, layer: 1, typ: 1, code: 4, text: "DDP 1/1/04 invalid DDP version of a tagged segment"},
	{cause: CauseDDPInvalidQN, layer: 1, typ: 2, code: 1, text: "DDP 1/2/01 invalid QN"},
	{cause: CauseDDPNoBuffer, layer: 1, typ: 2, code: 2, text: "DDP 1/2/02 invalid MSN: no buffer available"},
	{cause: CauseDDPMSNRange, layer: 1, typ: 2, code: 3, text: "DDP 1/2/03 invalid MSN: not in range"},
	{cause: CauseDDPInvalidMO, layer: 1, typ: 2, code: 4, text: "DDP 1/2/04 invalid MO"},
	{cause: CauseDDPTooLong, layer: 1, typ: 2, code: 5, text: "DDP 1/2/05 message too long for the buffer"},
	{cause: CauseDDPUntaggedVersion, layer: 1, typ: 2, code: 6, text: "DDP 1/2/06 invalid DDP version of an untagged segment"},
	{cause: CauseMPALost, layer: 2, typ: 0, code: 1, text: "MPA 2/0/01 TCP connection lost"},
	{cause: CauseMPACRC, layer: 2, typ: 0, code: 2, text: "MPA 2/0/02 CRC error"},
	{cause: CauseMPAFraming, layer: 2, typ: 0, code: 3, text: "MPA 2/0/03 marker and length disagree"},
	{cause: CauseMPAStart, layer: 2, typ: 0, code: 4, text: "MPA 2/0/04 bad Request or Reply frame"},
	{cause: CauseMPALocal, layer: 2, typ: 0, code: 5, text: "MPA 2/0/05 local catastrophic error"},
	{cause: CauseMPAIRD, layer: 2, typ: 0, code: 6, text: "MPA 2/0/06 insufficient IRD"},
	{cause: CauseMPARTR, layer: 2, typ: 0, code: 7, text: "MPA 2/0/07 no matching RTR"},
	{cause: 0x0105, layer: 0, typ: 1, code: 5, text: "RDMAP 0/1/05", unknown: true},
	{cause: 0x1200, layer: 1, typ: 2, code: 0, text: "DDP 1/2/00", unknown: true},
	{cause: 0x2000, layer: 2, typ: 0, code: 0, text: "MPA 2/0/00", unknown: true},
	{cause: 0x2101, layer: 2, typ: 1, code: 1, text: "MPA 2/1/01", unknown: true},
	{cause: 0xfabc, layer: 15, typ: 10, code: 0xbc, text: "layer f/a/bc", unknown: true},
}

func TestCausesAreThoseOfTheRegistry(t *testing.T) {
	t.Parallel()
	for _, c := range causes {
		if c.cause.Layer() != c.layer || c.cause.Type() != c.typ || c.cause.Code() != c.code {
			t.Errorf("%v: %x/%x/%02x, want %x/%x/%02x", c.cause, c.cause.Layer(), c.cause.Type(), c.cause.Code(), c.layer, c.typ, c.code)
		}
		if c.cause.String() != c.text || c.cause.Error() != "rdmap: "+c.text || c.cause.registered() == c.unknown {
			t.Errorf("%q, registered %v; want %q", c.cause, c.cause.registered(), c.text)
		}
	}
}

func TestCauseOfErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want Cause
	}{
		{CauseAccess, CauseAccess},
		{ddp.ErrCatastrophic, CauseDDPCatastrophic},
		{ddp.ErrInvalidSTag, CauseDDPInvalidSTag},
		{ddp.ErrTooLong, CauseDDPTooLong},
		{ddp.ErrShort, CauseMPAFraming},
		{ddp.ErrModel, CauseOpcode},
		{ddp.ErrMixed, CauseStreamCatastrophic},
		{mpa.ErrCRC, CauseMPACRC},
		{mpa.ErrMarker, CauseMPAFraming},
		{mpa.ErrLength, CauseMPAFraming},
		{mpa.ErrIRD, CauseMPAIRD},
		{mpa.ErrRTR, CauseMPARTR},
		{mpa.ErrKey, CauseCatastrophic}, // has no code
		{io.ErrUnexpectedEOF, CauseCatastrophic},
		{nil, CauseCatastrophic},
	} {
		if got := CauseOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if got := CauseOf(fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("wrapped %v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestCausesOfDDPAreItsErrors(t *testing.T) {
	t.Parallel()
	var err error = CauseDDPNoBuffer
	if !errors.Is(err, ddp.ErrNoBuffer) || !errors.Is(err, CauseDDPNoBuffer) {
		t.Error("the cause is not its error")
	}
	if errors.Is(err, ddp.ErrMSNRange) || errors.Is(err, io.EOF) || errors.Is(CauseInvalidSTag, ddp.ErrInvalidSTag) || errors.Is(CauseCatastrophic, ddp.ErrCatastrophic) {
		t.Error("the cause is another error")
	}
}
