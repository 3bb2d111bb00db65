package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// framed sends messages over a byte stream, each after its length in 4 bytes.
type framed struct {
	w   *bufio.Writer // these are the sending goroutine's
	out [4]byte

	r  *bufio.Reader // these the receiving one's
	in [4]byte
	b  []byte
}

func newFramed(rw io.ReadWriter, buffer int) *framed {
	return &framed{r: bufio.NewReaderSize(rw, buffer), w: bufio.NewWriterSize(rw, buffer)}
}

func (f *framed) Send(m []byte) error {
	binary.BigEndian.PutUint32(f.out[:], uint32(len(m)))
	f.w.Write(f.out[:])
	_, err := f.w.Write(m)
	return err
}

func (f *framed) Flush() error { return f.w.Flush() }

func (f *framed) Recv() ([]byte, error) {
	if _, err := io.ReadFull(f.r, f.in[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(f.in[:]))
	if n < 64 || n > 1<<24 {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	if cap(f.b) < n {
		f.b = make([]byte, n)
	}
	_, err := io.ReadFull(f.r, f.b[:n])
	return f.b[:n], err
}

// tcpPeer is a peer with a TCP connection for each flow.
func tcpPeer(wrap func(e *env, c net.Conn) Conn) peer {
	return connPeer(func(e *env, serve func(Conn)) error {
		l, err := net.Listen("tcp", e.addr)
		if err != nil {
			return err
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go serve(wrap(e, c))
		}
	}, func(e *env) (openConn, error) {
		return func() (Conn, error) {
			c, err := net.Dial("tcp", e.addr)
			if err != nil {
				return nil, err
			}
			return wrap(e, c), nil
		}, nil
	})
}

func tcpFramed(e *env, c net.Conn) Conn { return newFramed(c, e.streamBuffer()) }

// oneWrite is framed without batching: each message is one write.
type oneWrite struct {
	framed
	c     net.Conn
	frame []byte
}

func tcpOneWrite(e *env, c net.Conn) Conn {
	return &oneWrite{framed: *newFramed(c, e.streamBuffer()), c: c}
}

func (o *oneWrite) Send(m []byte) error {
	o.frame = append(binary.BigEndian.AppendUint32(o.frame[:0], uint32(len(m))), m...)
	_, err := o.c.Write(o.frame)
	return err
}
