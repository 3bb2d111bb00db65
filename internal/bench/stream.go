package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/rds"
)

// Buffers of a stream, bytes: where there are thousands of them they are small.
const (
	streamBuffer     = 64 << 10
	streamBufferMany = 4 << 10
)

// stream is the baseline: messages over a TCP connection, each after its
// length in 4 bytes, through bufio on both sides. A sender that does not flush
// after each message gets the batching its users would give it: one write for
// 64 KiB.
type stream struct {
	c net.Conn

	w   *bufio.Writer // w and out are the sending goroutine's
	out [4]byte

	r   *bufio.Reader // r, in and buf are the receiving goroutine's
	in  [4]byte
	buf []byte
}

func newStream(c net.Conn, buffer int) *stream {
	return &stream{c: c, r: bufio.NewReaderSize(c, buffer), w: bufio.NewWriterSize(c, buffer)}
}

// send buffers one message.
func (s *stream) send(m []byte) error {
	binary.BigEndian.PutUint32(s.out[:], uint32(len(m)))
	if _, err := s.w.Write(s.out[:]); err != nil {
		return err
	}
	_, err := s.w.Write(m)
	return err
}

func (s *stream) flush() error { return s.w.Flush() }

// recv returns the next message, valid until the next recv.
func (s *stream) recv() ([]byte, error) {
	if _, err := io.ReadFull(s.r, s.in[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(s.in[:]))
	if n > rds.MaxMessage {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	_, err := io.ReadFull(s.r, s.buf[:n])
	return s.buf[:n], err
}

// control is a net.Dialer's and a net.ListenConfig's; accepted connections have
// what their listener has.
func (o *TCPSettings) control(_, _ string, c syscall.RawConn) error {
	if o.Congestion != "" {
		if err := setCongestion(c, o.Congestion); err != nil {
			return err
		}
	}
	return setBuffers(c, o.Buffers)
}

func (o *TCPSettings) listen(ip netip.Addr) (net.Listener, error) {
	lc := net.ListenConfig{Control: o.control}
	return lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(ip, 0).String())
}

func (o *TCPSettings) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Control: o.control}
	return d.DialContext(ctx, "tcp", to.String())
}

// bufferFor is the size of a stream's buffers.
func bufferFor(w *Work) int {
	if w.Kind == Mux {
		return streamBufferMany
	}
	return streamBuffer
}
