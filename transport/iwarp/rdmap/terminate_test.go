//go:build !live

package rdmap

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// maxTerminate is the length of the longest body.
const maxTerminate = 52

var (
	sentSegment = ddp.Untagged{Last: true, ULP: 0x44, ULPData: 9, MSN: 4}.AppendTo(nil)
	writeHeader = ddp.Tagged{Last: true, ULP: 0x40, STag: 7, TO: 100}.AppendTo(nil)
	aRead       = ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 300, SourceSTag: 4, SourceTO: 5}
	readHeader  = ddp.Untagged{Last: true, ULP: 0x41, QN: 1, MSN: 2}.AppendTo(nil)
)

// RFC 5040 section 4.8, figure 10: what a Terminate includes depends on layer and
// type of the error. The lengths are those of the ULPDU it makes.
func TestTerminateIncludesWhatItsCauseAsksFor(t *testing.T) {
	t.Parallel()
	payload := make([]byte, 50)
	send, write := append(bytes.Clone(sentSegment), payload...), append(bytes.Clone(writeHeader), payload...)
	read := aRead.AppendTo(bytes.Clone(readHeader))
	for name, c := range map[string]struct {
		cause   Cause
		segment []byte
		header  []byte // nil: nothing is included
		read    bool
		ulpdu   int
	}{
		"our own failure":                 {CauseCatastrophic, send, nil, false, 22},
		"a Read's STag":                   {CauseInvalidSTag, read, readHeader, true, 70},
		"a Read's bounds":                 {CauseBounds, read, readHeader, true, 70},
		"a Read's rights":                 {CauseAccess, read, readHeader, true, 70},
		"invalidation of another's":       {CauseNotOurs, send, sentSegment, false, 42},
		"invalidation of nothing":         {CauseInvalidation, send, sentSegment, false, 42},
		"an opcode of a tagged segment":   {CauseOpcode, write, writeHeader, false, 38},
		"an opcode of an untagged one":    {CauseOpcode, send, sentSegment, false, 42},
		"too many Reads":                  {CauseStreamCatastrophic, read, readHeader, false, 42},
		"DDP's own failure":               {CauseDDPCatastrophic, write, writeHeader, false, 38},
		"a Write's STag":                  {CauseDDPInvalidSTag, write, writeHeader, false, 38},
		"a Send's MSN":                    {CauseDDPMSNRange, send, sentSegment, false, 42},
		"a Read Request's MSN":            {CauseDDPMSNRange, read, readHeader, false, 42},
		"CRC":                             {CauseMPACRC, send, nil, false, 22},
		"IRD":                             {CauseMPAIRD, nil, nil, false, 22},
		"no segment":                      {CauseOpcode, nil, nil, false, 22},
		"a segment shorter than a header": {CauseOpcode, send[:17], nil, false, 22},
		"a Read Request cut short":        {CauseInvalidSTag, read[:40], readHeader, false, 42},
		"a protection error of a Write":   {CauseProtection, write, writeHeader, false, 38},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := NewTerminate(c.cause, c.segment)
			want := Terminate{Cause: c.cause}
			if c.header != nil {
				want.HasLen, want.SegmentLen, want.HasDDP, want.DDP = true, uint16(len(c.segment)), true, c.header
			}
			if c.read {
				want.HasRead, want.Read = true, aRead
			}
			if !sameTerminate(term, want) {
				t.Errorf("%+v\nwant %+v", term, want)
			}
			header := TerminateHeader()
			ulpdu := term.AppendTo(header.AppendTo(nil))
			if len(ulpdu) != c.ulpdu {
				t.Errorf("ULPDU of %d octets, want %d", len(ulpdu), c.ulpdu)
			}
			var s Segment
			var again Terminate
			if err := s.Parse(ulpdu, OpsRFC5040); err != nil || s.Op != OpTerminate {
				t.Fatalf("%v, %v", s.Op, err)
			}
			if err := again.Decode(s.Payload, Hints{}); err != nil || !sameTerminate(again, want) {
				t.Errorf("decoded %+v, %v", again, err)
			}
		})
	}
}

// RFC 5040 section 4.8: of a Read that was answered in part the rest is returned.
func TestReadAfterItsFirstOctets(t *testing.T) {
	t.Parallel()
	want := ReadRequest{SinkSTag: 1, SinkTO: 102, Size: 200, SourceSTag: 4, SourceTO: 105}
	if got := aRead.After(100); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if aRead.After(0) != aRead {
		t.Error("nothing was answered, something is gone")
	}
}

// A Terminate that is cut still tells its cause.
func TestTerminateCutShort(t *testing.T) {
	t.Parallel()
	whole := readSegment(t, "terminate-read")[ddp.UntaggedLen:]
	if len(whole) != maxTerminate {
		t.Fatalf("%d octets", len(whole))
	}
	for n := range whole {
		var term Terminate
		err := term.Decode(whole[:n], Hints{})
		if !errors.Is(err, ddp.ErrShort) {
			t.Errorf("%d octets: %v", n, err)
		}
		if n >= 4 && term.Cause != CauseBounds {
			t.Errorf("%d octets: cause %v", n, term.Cause)
		}
		if term.HasDDP != (n >= 24) || term.HasRead {
			t.Errorf("%d octets: %+v", n, term)
		}
	}
	// Octets behind the end, as of a later version, are no error.
	var term Terminate
	if err := term.Decode(append(bytes.Clone(whole), 1, 2, 3), Hints{}); err != nil || term.Read.SinkSTag != 0x4bc30300 {
		t.Errorf("%+v, %v", term, err)
	}
	// Neither is a flag without what it goes with.
	if err := term.Decode([]byte{0x10, 0, 0xa0, 0}, Hints{}); err != nil || !term.HasLen || term.HasDDP || term.HasRead {
		t.Errorf("%+v, %v", term, err)
	}
}
