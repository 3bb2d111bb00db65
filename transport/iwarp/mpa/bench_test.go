package mpa

import (
	"fmt"
	"slices"
	"testing"
)

func BenchmarkCRC(b *testing.B) {
	for _, n := range []int{36, 64, 1448, 16 << 10, 64768} {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			content := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				CRC(content)
			}
		})
	}
}

// eachShape runs f for the ULPDU lengths of a short message, of siw on
// Ethernet and of the longest FPDUs, with and without CRC and markers.
func eachShape(b *testing.B, f func(b *testing.B, ulpdu []byte, crc, markers bool)) {
	for _, n := range []int{64, 1424, 16 << 10, MaxULPDU - 18} {
		for _, shape := range []struct {
			name         string
			crc, markers bool
		}{{"plain", false, false}, {"CRC", true, false}, {"markers", true, true}} {
			b.Run(fmt.Sprintf("%d/%s", n, shape.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				f(b, send(1, n), shape.crc, shape.markers)
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	eachShape(b, func(b *testing.B, ulpdu []byte, crc, markers bool) {
		var w MarkerWriter
		content := AppendContent(nil, ulpdu)
		dst := make([]byte, 0, MaxFPDU+MarkerLen*MaxMarkers(MaxFPDU))
		for b.Loop() {
			if markers {
				dst = w.Append(dst[:0], content, crc)
			} else {
				dst = AppendFPDU(dst[:0], ulpdu, crc)
			}
		}
	})
}

// BenchmarkParser feeds 127 FPDUs at once: with markers, as many end where the
// stream can start anew.
func BenchmarkParser(b *testing.B) {
	const fpdus = (MarkerInterval - MarkerLen) / 4
	eachShape(b, func(b *testing.B, ulpdu []byte, crc, markers bool) {
		in := stream(markers, crc, slices.Repeat([][]byte{ulpdu}, fpdus))
		p := Parser{CRC: crc, Markers: markers}
		b.SetBytes(int64(fpdus * (len(ulpdu) - MinUntagged)))
		delivered, runs := 0, 0
		deliver := func([]byte) error { delivered++; return nil }
		for b.Loop() {
			runs++
			if err := p.Feed(in, deliver); err != nil {
				b.Fatal(err)
			}
		}
		if delivered != runs*fpdus {
			b.Fatalf("%d deliveries, want %d", delivered, runs*fpdus)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(delivered), "ns/FPDU")
	})
}
