package mpa

import (
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads hex with spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	must(t, err)
	return b
}

// send returns a DDP segment: a Send of zeros on queue 0.
func send(msn byte, zeros int) []byte {
	return append([]byte{0x41, 0x43, 12: 0, 13: msn, 17: 0}[:18:18], make([]byte, zeros)...)
}

// vectors are FPDUs without markers, with CRC. Those of siw were captured from
// Linux 6.1; its PAD is what the buffer held before.
var vectors = []struct {
	name, ulpdu, pad, crc string
}{
	{"Send, siw", "4143 00000000 00000000 00000001 00000000 030a1118 1f262d34 3b424950 575e656c", "", "8f47ce3b"},
	{"Send with SE and stale PAD, siw", "4145 00000000 00000000 00000002 00000000 030a1118 1f262d34 3b424950 575e656c 73", "47ce3b", "4bbf6258"},
	{"rping's first Send, siw", "4143 00000000 00000000 00000001 00000000 000055addb40e370 c3986700 00000040", "", "1a9c24a9"},
	{"another, siw", "4143 00000000 00000000 00000001 00000000 0000557d58eeb370 019ff900 00000040", "", "f86c046d"},
	{"Terminate, siw", "4147 00000000 00000002 00000001 00000000 02020000", "", "75d367ed"},
	{"empty Write, the RTR C", "c140 00000001 0000000000000000", "", "ebd34c5f"},
	{"empty Read, the RTR D", "4141 00000000 00000001 00000001 00000000 00000000 0000000000000000 00000000 00000001 0000000000000000", "", "ba10e3c9"},
	{"empty Send, the RTR B", "4143 00000000 00000000 00000001 00000000", "", "587be8c4"},
	{"empty Read Response", "c142 00000001 0000000000000000", "", "21a3e83e"},
}

func TestCRCIsThatOfOtherImplementations(t *testing.T) {
	t.Parallel()
	if got := CRC([]byte("123456789")); got != 0xE3069283 {
		t.Errorf("check value %#x", got)
	}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ulpdu := unhex(t, v.ulpdu)
			content := append([]byte{0, byte(len(ulpdu))}, ulpdu...)
			content = append(content, unhex(t, v.pad)...)
			var field [CRCLen]byte
			PutCRC(field[:], CRC(content))
			if got := hex.EncodeToString(field[:]); got != v.crc {
				t.Errorf("CRC %s, want %s", got, v.crc)
			}
			if GetCRC(field[:]) != CRC(content) {
				t.Error("GetCRC does not read what PutCRC writes")
			}
			sum := uint32(0)
			for i := range content {
				sum = UpdateCRC(sum, content[i:i+1])
			}
			if sum != CRC(content) {
				t.Errorf("octet by octet %#x", sum)
			}
		})
	}
}

// An FPDU is the shortest multiple of four that holds its parts.
func TestFPDULengths(t *testing.T) {
	t.Parallel()
	for n := range MaxReceiveULPDU + 1 {
		pad, content := Pad(n), ContentLen(n)
		if pad < 0 || pad > 3 || content != 2+n+pad || content%4 != 0 || FPDULen(n) != content+4 {
			t.Fatalf("ULPDU of %d: PAD %d, content %d, FPDU %d", n, pad, content, FPDULen(n))
		}
	}
	for _, c := range []struct {
		name       string
		ulpdu, pad int
		fpdu       int
	}{
		{"empty", 0, 2, 8},
		{"empty Write or Read Response", 14, 0, 20},
		{"empty Send", 18, 0, 24},
		{"Terminate without headers", 22, 0, 28},
		{"Immediate", 26, 0, 32},
		{"Atomic Response", 30, 0, 36},
		{"Send of 17", 35, 3, 44},
		{"Read Request", 46, 0, 52},
		{"Terminate with all headers, Atomic Request", 70, 0, 76},
		{"longest to send", MaxULPDU, 2, 64776},
		{"longest to receive", MaxReceiveULPDU, 3, MaxFPDU},
	} {
		if Pad(c.ulpdu) != c.pad || FPDULen(c.ulpdu) != c.fpdu {
			t.Errorf("%s: PAD %d, FPDU %d, want %d, %d", c.name, Pad(c.ulpdu), FPDULen(c.ulpdu), c.pad, c.fpdu)
		}
		if got := len(AppendFPDU(nil, make([]byte, c.ulpdu), true)); got != c.fpdu {
			t.Errorf("%s: %d octets, want %d", c.name, got, c.fpdu)
		}
	}
}

func TestMinULPDUFollowsTheTaggedBit(t *testing.T) {
	t.Parallel()
	for control := range 256 {
		want := 18
		if control >= 0x80 {
			want = 14
		}
		if got := MinULPDU(byte(control)); got != want {
			t.Errorf("control %#02x: %d, want %d", control, got, want)
		}
	}
}

func TestMULPDU(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		emss    int
		markers bool
		want    int
	}{
		{1460, false, 1454},
		{1460, true, 1442}, // three markers
		{1448, false, 1442},
		{1447, false, 1438},
		{1446, false, 1438},
		{1445, false, 1438},
		{8948, false, 8942},
		{8948, true, 8870}, // 18 markers
		{512, true, 502},
		{516, true, 502},
		{100, false, 128},
		{0, true, 128},
		{65483, false, 64768}, // a loopback device
		{65483, true, 64768},
		{1 << 30, false, 64768},
	} {
		if got := MULPDU(c.emss, c.markers); got != c.want {
			t.Errorf("EMSS %d, markers %v: %d, want %d", c.emss, c.markers, got, c.want)
		}
	}
}

// An FPDU of MULPDU fits one segment, wherever in the stream it stands.
func TestMULPDUFitsTheSegment(t *testing.T) {
	t.Parallel()
	for emss := 160; emss < 3000; emss += 7 {
		if got := FPDULen(MULPDU(emss, false)); got > emss {
			t.Errorf("EMSS %d: an FPDU of %d", emss, got)
		}
		ulpdu := make([]byte, MULPDU(emss, true))
		for pos := 0; pos < MarkerInterval; pos += 4 {
			w := MarkerWriter{pos: pos}
			if got := len(w.Append(nil, AppendContent(nil, ulpdu), false)); got > emss {
				t.Fatalf("EMSS %d, position %d: an FPDU of %d", emss, pos, got)
			}
		}
	}
}
