package memnet

import (
	"net/netip"
	"syscall"
)

// maxSegment bounds the bytes of one segment, so that a stream arrives in pieces.
const maxSegment = 64 << 10

// sizes are those of a socket's buffers.
type sizes struct{ send, receive int }

func (s sizes) withDefaults() sizes {
	if s.send == 0 {
		s.send = defaultSendBuffer
	}
	if s.receive == 0 {
		s.receive = defaultReceiveBuffer
	}
	return s
}

// owner uses a socket. Its methods are called with the network locked, and must not block.
type owner interface {
	// readable says that there is something to read: bytes, the end of the stream or an error.
	readable()
	// writable says that a socket that was full has room again, or is reset.
	writable()
}

// socket is one end of a connection. The network's lock guards it, and all methods need that
// lock. Positions count the bytes of a stream.
type socket struct {
	n             *Network
	local, remote netip.AddrPort
	out           *wire
	owner         owner // nil: accept has not returned the socket yet, or it is closed
	sizes         sizes
	dialed        bool // local is in Network.dialed

	unsent  fifo
	written uint64 // taken from the owner
	sent    uint64 // on the wire
	acked   uint64 // acknowledged by the peer
	most    uint64 // the peer's window: sent does not exceed it
	full    bool   // the owner waits for room
	ending  bool   // the owner writes no more
	ended   bool   // the end of the stream was sent

	in       fifo
	received uint64 // arrived
	read     uint64 // taken by the owner
	promised uint64 // the window that the peer was told of
	eof      bool   // the end of the stream has arrived

	err    error // the connection is reset
	closed bool  // the owner is gone
}

// join makes the two sockets of a connection.
func join(n *Network, local, remote netip.AddrPort, a, b sizes) (*socket, *socket) {
	x := &socket{n: n, local: local, remote: remote, sizes: a.withDefaults()}
	y := &socket{n: n, local: remote, remote: local, sizes: b.withDefaults()}
	x.out = &wire{n: n, from: local, to: remote, dst: y}
	y.out = &wire{n: n, from: remote, to: local, dst: x}
	x.promised = uint64(min(x.sizes.receive, firstWindow))
	y.promised = uint64(min(y.sizes.receive, firstWindow))
	x.most, y.most = y.promised, x.promised
	return x, y
}

// arrive takes a segment from the peer.
func (s *socket) arrive(g *segment) {
	if s.err != nil {
		return
	}
	switch g.kind {
	case data:
		if s.closed {
			s.reset() // nobody will read that
			return
		}
		s.in.add(g.data)
		s.received += uint64(len(g.data))
		s.acknowledge()
		s.tellReadable()
	case ack:
		s.acked, s.most = max(s.acked, g.ack), max(s.most, g.most)
		s.transmit()
		s.tellWritable()
	case fin:
		s.eof = true
		s.tellReadable()
	case rst:
		err := error(syscall.ECONNRESET)
		if s.eof {
			err = syscall.EPIPE
		}
		s.die(err)
		s.tellReadable()
		s.tellWritable()
	}
}

func (s *socket) tellReadable() {
	if s.owner != nil {
		s.owner.readable()
	}
}

// tellWritable tells an owner that waits for room, if a third of the buffer is free.
func (s *socket) tellWritable() {
	if s.full && s.owner != nil && (s.err != nil || s.room() >= s.sizes.send/3) {
		s.full = false
		s.owner.writable()
	}
}

// room is how many bytes the send buffer takes.
func (s *socket) room() int { return max(0, s.sizes.send-int(s.written-s.acked)) }

// acknowledge tells the peer what has arrived, and the window.
func (s *socket) acknowledge() {
	s.promised = max(s.promised, s.read+uint64(s.sizes.receive))
	s.out.send(segment{kind: ack, ack: s.received, most: s.promised})
}

// transmit sends what the window allows, and the end of the stream behind all bytes.
func (s *socket) transmit() {
	for s.unsent.len() > 0 && s.sent < s.most {
		b := s.unsent.cut(min(int(s.most-s.sent), maxSegment))
		s.sent += uint64(len(b))
		s.out.send(segment{kind: data, data: b})
	}
	if s.ending && !s.ended && s.unsent.len() == 0 {
		s.ended = true
		s.out.send(segment{kind: fin})
	}
}

// write takes the leading bytes of b for which there is room. While they are acknowledged at
// once, as nothing delays them, there is room for more.
func (s *socket) write(b []byte) (n int) {
	for n < len(b) && s.err == nil {
		k := min(len(b)-n, s.room())
		if k == 0 {
			break
		}
		chunk := make([]byte, k)
		move(chunk, b[n:])
		s.unsent.add(chunk)
		s.written += uint64(k)
		n += k
		s.transmit()
		s.n.run()
	}
	return n
}

// take reads what has arrived.
func (s *socket) take(b []byte) int {
	n := s.in.get(b)
	s.read += uint64(n)
	if s.err == nil && s.read+uint64(s.sizes.receive) >= s.promised+uint64(s.sizes.receive)/4 {
		s.acknowledge()
		s.n.run()
	}
	return n
}

// shutdown ends our direction, behind what was written.
func (s *socket) shutdown() {
	if s.err == nil && !s.ending {
		s.ending = true
		s.transmit()
	}
}

// close gives the socket up. What was written is still sent, unless something was not read.
func (s *socket) close() {
	if s.closed {
		return
	}
	if s.in.len() > 0 {
		s.reset()
		return
	}
	s.shutdown()
	s.gone()
}

// reset ends the connection at once.
func (s *socket) reset() {
	if s.err == nil {
		s.die(syscall.ECONNRESET)
		s.out.send(segment{kind: rst})
	}
	s.gone()
}

// die is the end of both directions.
func (s *socket) die(err error) {
	s.err = err
	s.unsent = fifo{}
}

// gone says that the owner is.
func (s *socket) gone() {
	s.closed, s.owner, s.in = true, nil, fifo{}
	if s.dialed {
		s.dialed = false
		delete(s.n.dialed, s.local)
	}
}
