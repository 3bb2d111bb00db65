//go:build !live

package rdmap

import (
	"encoding/hex"
	"testing"
)

// What Linux's siw sends on a little-endian host, and the same in the RFC's
// layout. hints are those of the moment at which each can come.
var siwLayouts = []struct {
	siw, rfc string // the first three octets
	cause    Cause
	hints    Hints
}{
	{"210103", "1201c0", CauseDDPInvalidQN, Hints{}},
	{"210203", "1202c0", CauseDDPNoBuffer, Hints{}},
	{"210303", "1203c0", CauseDDPMSNRange, Hints{}},
	{"210403", "1204c0", CauseDDPInvalidMO, Hints{}},
	{"110003", "1100c0", CauseDDPInvalidSTag, Hints{}},
	{"110103", "1101c0", CauseDDPBounds, Hints{}},
	{"110203", "1102c0", CauseDDPNotAssociated, Hints{}},
	{"010003", "1000c0", CauseDDPCatastrophic, Hints{}},
	{"100007", "0100e0", CauseInvalidSTag, Hints{}},
	{"100107", "0101e0", CauseBounds, Hints{}},
	{"100207", "0102e0", CauseAccess, Hints{}},
	{"100307", "0103e0", CauseNotAssociated, Hints{}},
	{"200703", "0207c0", CauseStreamCatastrophic, Hints{}},
	{"200500", "020500", CauseVersion, Hints{Sent: true}},
	{"200600", "020600", CauseOpcode, Hints{Sent: true}},
	{"210600", "120600", CauseDDPUntaggedVersion, Hints{Sent: true}},
	{"020200", "200200", CauseMPACRC, Hints{Sent: true}},
	{"020300", "200300", CauseMPAFraming, Hints{Sent: true}},
	{"020400", "200400", CauseMPAStart, Hints{First: true}},
	{"020600", "200600", CauseMPAIRD, Hints{First: true}},
	{"020700", "200700", CauseMPARTR, Hints{First: true}},
}

// layout completes three octets with the headers they announce.
func layout(t *testing.T, first string) []byte {
	t.Helper()
	b, err := hex.DecodeString(first + "00")
	must(t, err)
	if b[2]&0x42 != 0 {
		b = append(b, 0, 32)
		b = append(b, readHeader...)
	}
	if b[2]&0x24 != 0 {
		b = aRead.AppendTo(b)
	}
	return b
}

func TestTerminatesOfBothLayouts(t *testing.T) {
	t.Parallel()
	for _, c := range siwLayouts {
		t.Run(c.siw, func(t *testing.T) {
			t.Parallel()
			var siw, rfc Terminate
			if err := siw.Decode(layout(t, c.siw), c.hints); err != nil || siw.Cause != c.cause || !siw.SIW {
				t.Errorf("siw's: %+v, %v; want %v", siw, err, c.cause)
			}
			// The RFC's reading of a message without headers needs the
			// opposite hints where both make sense.
			if err := rfc.Decode(layout(t, c.rfc), Hints{}); err != nil || rfc.Cause != c.cause || rfc.SIW {
				t.Errorf("the RFC's: %+v, %v; want %v", rfc, err, c.cause)
			}
			// They differ in nothing else.
			rfc.SIW = true
			if !sameTerminate(siw, rfc) {
				t.Errorf("%+v\nand  %+v", siw, rfc)
			}
		})
	}
}

// Without headers some first octets mean one thing in the RFC's layout and
// another in siw's. What was sent before decides.
func TestHintsDecideBetweenTwoReadings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		octets string
		hints  Hints
		cause  Cause
		siw    bool
	}{
		{"20050000", Hints{}, CauseMPALocal, false}, // an initiator's, before anything else
		{"20050000", Hints{First: true}, CauseMPALocal, false},
		{"20050000", Hints{Sent: true}, CauseVersion, true},
		{"20060000", Hints{First: true}, CauseMPAIRD, false},
		{"20060000", Hints{Sent: true}, CauseOpcode, true},
		{"20070000", Hints{Sent: true}, CauseMPARTR, false}, // siw's has headers
		{"02050000", Hints{First: true}, CauseVersion, false},
		{"02060000", Hints{}, CauseOpcode, false},
		{"02060000", Hints{Sent: true}, CauseOpcode, false},
		{"02060000", Hints{First: true}, CauseMPAIRD, true},
		{"02070000", Hints{}, CauseStreamCatastrophic, false},
		{"02070000", Hints{First: true}, CauseMPARTR, true},
		{"02030000", Hints{}, CauseMPAFraming, true},         // 0/2/03 does not exist
		{"21060000", Hints{}, CauseDDPUntaggedVersion, true}, // nor 2/1/06
		{"12060000", Hints{Sent: true, First: true}, CauseDDPUntaggedVersion, false},
		{"11040000", Hints{Sent: true, First: true}, CauseDDPTaggedVersion, false}, // the same in both
		{"01000000", Hints{Sent: true, First: true}, CauseInvalidSTag, false},
		{"10000000", Hints{Sent: true, First: true}, CauseDDPCatastrophic, false},
		{"00000000", Hints{Sent: true, First: true}, CauseCatastrophic, false},
		{"ee990000", Hints{Sent: true, First: true}, 0xee99, false}, // no sense either way
		{"ef990000", Hints{Sent: true, First: true}, 0xef99, false},
	} {
		b, err := hex.DecodeString(c.octets)
		must(t, err)
		var term Terminate
		if err := term.Decode(b, c.hints); err != nil || term.Cause != c.cause || term.SIW != c.siw {
			t.Errorf("%s, %+v: %v, siw %v, %v; want %v, %v", c.octets, c.hints, term.Cause, term.SIW, err, c.cause, c.siw)
		}
	}
}

func TestSIWTerminateFromALiveDriver(t *testing.T) {
	t.Parallel()
	var s Segment
	if err := s.Parse(readSegment(t, "siw-terminate-crc"), OpsRFC5040); err != nil || s.Op != OpTerminate {
		t.Fatalf("%v, %v", s.Op, err)
	}
	if s.Untagged != TerminateHeader() {
		t.Errorf("header %+v", s.Untagged)
	}
	var term Terminate
	if err := term.Decode(s.Payload, Hints{Sent: true}); err != nil || term.Cause != CauseMPACRC || !term.SIW || term.HasDDP {
		t.Errorf("%+v, %v", term, err)
	}
}
