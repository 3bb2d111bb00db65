//go:build !live

package rdmap

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"rping-write", "rping-send"} {
		b.Run(name, func(b *testing.B) {
			segment := readSegment(b, name)
			var s Segment
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Parse(segment, OpsRFC5040); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, ddp.UntaggedLen)
	write, send := tagged(OpWrite, 1, 2), untagged(OpSend, 1)
	b.Run("tagged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			write.AppendTo(buf)
		}
	})
	b.Run("untagged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			send.AppendTo(buf)
		}
	})
}
