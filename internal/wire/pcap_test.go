package wire

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
	"github.com/rds-go/rds/internal/pcap"
)

var update = flag.Bool("update", false, "write testdata/rds-tcp.pcap anew")

// conversation names the goldens each end sends, in the order of the capture;
// those of one step travel in the same segments.
var conversation = []struct {
	from     pcap.End
	messages []string
}{
	{0, []string{"E1"}}, // the map comes first
	{0, []string{"E2"}},
	{1, []string{"E1"}},
	{1, []string{"E2", "E3"}}, // its own probe, and the pong behind it in one segment
	{0, []string{"E6"}},
	{0, []string{"E7"}}, // the pong to the other side's probe
}

// buildCapture has two hosts hold the conversation, as net/rds does: 10.9.0.2 is
// the smaller address and connects to port 16385 of 10.9.0.3.
func buildCapture(t *testing.T) []byte {
	c := pcap.New(netip.MustParseAddrPort("10.9.0.2:40001"), netip.MustParseAddrPort("10.9.0.3:16385"))
	for _, step := range conversation {
		var b []byte
		for _, name := range step.messages {
			b = append(b, hexfile.Read(t, name)...)
		}
		c.Send(step.from, b)
	}
	c.Close(pcap.Client)
	return c.Bytes()
}

// TestCapture holds testdata/rds-tcp.pcap to what the goldens say, and reads
// it back the way a receiver does, so that the file is known to be sound by
// more than its own builder.
func TestCapture(t *testing.T) {
	path := filepath.Join("testdata", "rds-tcp.pcap")
	built := buildCapture(t)
	if *update {
		if err := os.WriteFile(path, built, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, built) {
		t.Fatalf("%s is not what the goldens give; run go test ./internal/wire -run TestCapture -update", path)
	}

	var want [2][]string
	for _, step := range conversation {
		want[step.from] = append(want[step.from], step.messages...)
	}
	streams, err := pcap.Streams(file)
	if err != nil {
		t.Fatal(err)
	}
	for end, stream := range streams {
		for _, name := range want[end] {
			var h Header
			if err := h.Decode(stream); err != nil {
				t.Fatalf("end %d, %s: %v", end, name, err)
			}
			n := HeaderSize + int(h.Length)
			if golden := hexfile.Read(t, name); len(stream) < n || !bytes.Equal(stream[:n], golden) {
				t.Fatalf("end %d: %+v is not %s", end, h, name)
			}
			stream = stream[n:]
		}
		if len(stream) != 0 {
			t.Errorf("end %d: %d bytes left over", end, len(stream))
		}
	}
}
