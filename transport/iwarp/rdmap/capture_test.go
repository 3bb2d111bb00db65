//go:build !live

package rdmap

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/rds-go/rds/internal/pcap"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

var update = flag.Bool("update", false, "write testdata/*.pcap anew")

// TestCaptures holds the files to what our encoders make, and reads them back
// the way a receiver does.
func TestCaptures(t *testing.T) {
	t.Parallel()
	for _, cp := range captures() {
		t.Run(cp.name, func(t *testing.T) {
			t.Parallel()
			built := cp.build()
			if *update {
				must(t, os.WriteFile(cp.path(), built, 0o644))
			}
			file, err := os.ReadFile(cp.path())
			must(t, err)
			if !bytes.Equal(file, built) {
				t.Fatalf("%s is not what the encoders give; run go test ./transport/iwarp/rdmap -run TestCaptures -update", cp.path())
			}
			streams, err := pcap.Streams(file)
			must(t, err)
			for _, end := range []pcap.End{client, server} {
				readBack(t, &cp, end, streams[end])
			}
		})
	}
}

// readBack compares one end's stream with the messages it was made of.
func readBack(t *testing.T, cp *capture, end pcap.End, stream []byte) {
	t.Helper()
	f, need, err := mpa.DecodeFrame(stream, mpa.MaxPrivate)
	if err != nil || need != 0 || f.Rev != cp.rev || f.Reply != (end == server) {
		t.Fatalf("end %d: %+v, %d, %v", end, f, need, err)
	}
	stream = stream[mpa.FrameLen+len(f.Private):]
	var want [][]byte
	for _, m := range cp.messages {
		if m.from == end {
			want = append(want, m.segments()...)
		}
	}
	parser := mpa.Parser{CRC: cp.crc, Markers: cp.markers}
	if err := parser.Feed(stream, func(ulpdu []byte) error {
		if len(want) == 0 || !bytes.Equal(ulpdu, want[0]) {
			t.Fatalf("end %d: % x\nwant % x", end, ulpdu, want)
		}
		var seg Segment
		if err := seg.Parse(ulpdu, OpsRFC5040|OpsRFC7306); err != nil {
			return err
		}
		want = want[1:]
		return decodeBody(&seg)
	}); err != nil || parser.Partial() || len(want) != 0 {
		t.Fatalf("end %d: %v, %d segments are missing", end, err, len(want))
	}
}
