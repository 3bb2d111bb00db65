package wire

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
)

var (
	pathsOnly  = [ExtensionSize]byte{ExtPaths, 0, 8}
	threeExts  = [ExtensionSize]byte{ExtPaths, 0, 8, ExtGeneration, 0x1a, 0x2b, 0x3c, 0x4d, ExtSourceIndex}
	eightPaths = Handshake{HasPaths: true, Paths: 8}
)

// goldens are messages as Linux 6.1 kernels exchange them; E10 is what a
// net-next kernel sends.
var goldens = []struct {
	name      string
	header    Header
	handshake Handshake
	congested []uint16 // ports, for a congestion map
}{
	{name: "E1", header: Header{Length: 8192, Flags: FlagCongestion}},
	{name: "E2", header: Header{Sequence: 1, Sport: PortProbe, Extensions: pathsOnly}, handshake: eightPaths},
	{name: "E3", header: Header{Sequence: 2, Dport: PortProbe, Extensions: pathsOnly}, handshake: eightPaths},
	{name: "E4", header: Header{Sequence: 1, Sport: 25945}},
	{name: "E5", header: Header{Sequence: 1, Dport: 25945}},
	{name: "E6", header: Header{Sequence: 2, Length: 64, Sport: 4001, Dport: 4001}},
	{name: "E7", header: Header{Sequence: 3, Dport: PortProbe, Extensions: pathsOnly}, handshake: eightPaths},
	{name: "E8", header: Header{Length: 8192, Flags: FlagCongestion}, congested: []uint16{4000}},
	{name: "E9", header: Header{Sequence: 3, Length: 60000, Sport: 4000, Dport: 5001, Flags: FlagRetransmitted}},
	{name: "E10", header: Header{Sequence: 1, Sport: PortProbe, Extensions: threeExts},
		handshake: Handshake{HasPaths: true, Paths: 8, Generation: 0x1a2b3c4d, SourceIndex: true}},
}

func TestGoldenMessages(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			msg := hexfile.Read(t, g.name)
			var h Header
			if err := h.Decode(msg); err != nil {
				t.Fatal(err)
			}
			if h != g.header {
				t.Errorf("decoded %+v\nwant    %+v", h, g.header)
			}
			if got := h.AppendTo([]byte{0xee}); !bytes.Equal(got[1:], msg[:HeaderSize]) || got[0] != 0xee {
				t.Errorf("AppendTo gives % x\nwant          % x", got[1:], msg[:HeaderSize])
			}
			put := bytes.Repeat([]byte{0xee}, HeaderSize+1)
			h.Put(put)
			if !bytes.Equal(put[:HeaderSize], msg[:HeaderSize]) || put[HeaderSize] != 0xee {
				t.Errorf("Put gives % x\nwant     % x", put, msg[:HeaderSize])
			}
			// E9 stands in its file without its 60,000 bytes.
			if payload := len(msg) - HeaderSize; payload != int(h.Length) && g.name != "E9" {
				t.Errorf("%d payload bytes for length %d", payload, h.Length)
			}
			if got := ParseHandshake(&h.Extensions); got != g.handshake {
				t.Errorf("handshake %+v, want %+v", got, g.handshake)
			}
			area := [ExtensionSize]byte{15: 0xee}
			if g.handshake.Put(&area); area != g.header.Extensions {
				t.Errorf("Put gives % x, want % x", area, g.header.Extensions)
			}
			if h.IsCongestion() {
				checkMap(t, (*CongestionMap)(msg[HeaderSize:]), g.congested)
			} else if g.header.Length == CongestionMapSize {
				t.Error("a congestion map is not seen as one")
			}
			if h.Retransmitted() != (g.name == "E9") {
				t.Errorf("Retransmitted is %v", h.Retransmitted())
			}
		})
	}
}

func checkMap(t *testing.T, m *CongestionMap, want []uint16) {
	t.Helper()
	var built CongestionMap
	for _, p := range want {
		built.Set(p)
	}
	if *m != built {
		t.Errorf("the map is not the one of ports %v", want)
	}
}

func TestPutDataWritesPlainHeader(t *testing.T) {
	t.Parallel()
	want := hexfile.Read(t, "E6")[:HeaderSize]
	b := bytes.Repeat([]byte{0xee}, HeaderSize)
	PutData(b, 2, 64, 4001, 4001)
	if !bytes.Equal(b, want) {
		t.Errorf("PutData gives % x\nwant         % x", b, want)
	}
}

func TestMarkRetransmittedKeepsTheRest(t *testing.T) {
	t.Parallel()
	want := hexfile.Read(t, "E9")
	b := bytes.Clone(want)
	b[24] = 0
	MarkRetransmitted(b)
	if !bytes.Equal(b, want) {
		t.Errorf("marked % x\nwant   % x", b, want)
	}
	b[24] = 0xf8
	if MarkRetransmitted(b); b[24] != 0xfc {
		t.Errorf("flags %#02x, want 0xfc", b[24])
	}
}
