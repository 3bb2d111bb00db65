package transporttest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Sender writes numbered messages with predictable content to a link.
type Sender struct {
	Link transport.Link
	Rec  *Recorder // hears Writable
	next uint64    // number of the next message
	sent uint64    // octets
	part int       // octets taken of the frame that is next
}

// Fill writes the content of message number seq into b.
func Fill(b []byte, seq uint64) {
	x := seq*0x9e3779b97f4a7c15 + 1
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, x)
		x = x*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

// Filled tells whether b is what Fill writes.
func Filled(b []byte, seq uint64) bool {
	x := seq*0x9e3779b97f4a7c15 + 1
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != x {
			return false
		}
		x = x*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		if b[i] != byte(x>>(8*i)) {
			return false
		}
	}
	return true
}

// Next returns the next message with size payload bytes, as header and payload.
func (s *Sender) Next(size int) transport.Frame {
	header, payload := make([]byte, wire.HeaderSize), make([]byte, size)
	wire.PutData(header, s.next, uint32(size), 1000, 2000)
	Fill(payload, s.next)
	s.next++
	return transport.Frame{Head: header, Body: payload, Port: 2000}
}

// Try sends leading frames, and returns those that were not taken whole.
func (s *Sender) Try(frames []transport.Frame) (rest []transport.Frame, err error) {
	n, err := s.Link.Send(frames)
	if n.Frames > len(frames) || n.Frames == len(frames) && n.Begun() || n.Octets < 0 {
		panic(fmt.Sprintf("Send of %d frames has taken %+v", len(frames), n))
	}
	for i := range n.Frames {
		s.sent += uint64(frames[i].Size() - s.part)
		s.part = 0
	}
	rest = frames[n.Frames:]
	s.sent += uint64(n.Octets)
	if s.part += n.Octets; len(rest) > 0 && s.part > 0 && s.part >= rest[0].Size() {
		panic(fmt.Sprintf("Send has taken %d octets of a frame of %d, and not the frame", s.part, rest[0].Size()))
	}
	return rest, err
}

// Write sends frames, waiting for room as often as needed.
func (s *Sender) Write(t testing.TB, frames ...transport.Frame) {
	t.Helper()
	for {
		rest, err := s.Try(frames)
		if err != nil {
			t.Fatalf("Send: %v", err)
		}
		if frames = rest; len(frames) == 0 {
			return
		}
		s.Rec.WaitWritable(t)
	}
}

// Send writes one message for each size.
func (s *Sender) Send(t testing.TB, sizes ...int) {
	t.Helper()
	for _, size := range sizes {
		s.Write(t, s.Next(size))
	}
}

// Sent returns how many octets were written.
func (s *Sender) Sent() uint64 { return s.sent }
