package transporttest

import (
	"encoding/binary"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Sender writes numbered messages with predictable content to a link.
type Sender struct {
	Link transport.Link
	Rec  *Recorder // hears Writable
	next uint64    // number of the next message
	sent uint64    // bytes
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
func (s *Sender) Next(size int) [][]byte {
	header, payload := make([]byte, wire.HeaderSize), make([]byte, size)
	wire.PutData(header, s.next, uint32(size), 1000, 2000)
	Fill(payload, s.next)
	s.next++
	return [][]byte{header, payload}
}

// Write writes bufs, waiting for room as often as needed.
func (s *Sender) Write(t testing.TB, bufs [][]byte) {
	t.Helper()
	for {
		n, err := s.Link.Writev(bufs)
		if err != nil {
			t.Fatalf("Writev: %v", err)
		}
		s.sent += uint64(n)
		if bufs = Skip(bufs, n); bufs == nil {
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

// Sent returns how many bytes were written.
func (s *Sender) Sent() uint64 { return s.sent }

// Skip returns what is left of bufs behind its first n bytes, nil if nothing.
// It changes the slices of bufs.
func Skip(bufs [][]byte, n int) [][]byte {
	for i, b := range bufs {
		if n < len(b) {
			bufs[i] = b[n:]
			return bufs[i:]
		}
		n -= len(b)
	}
	return nil
}
