package rdstest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// Raw is one TCP connection of a rawPeer.
type Raw struct {
	testing.TB
	Conn
	Seq uint64
	Hs  wire.Handshake // answered to probes
}

func (r *Raw) Put(b []byte) {
	r.Helper()
	if _, err := r.Write(b); err != nil {
		r.Fatal(err)
	}
}

// Message encodes a header and its payload; Length is set if it is 0.
func Message(h wire.Header, payload []byte) []byte {
	if h.Length == 0 {
		h.Length = uint32(len(payload))
	}
	return append(h.AppendTo(nil), payload...)
}

// Data is the next message in sequence.
func (r *Raw) Data(sport, dport uint16, payload []byte) []byte {
	h := wire.Header{Sequence: r.Seq, Sport: sport, Dport: dport}
	r.Seq++
	return Message(h, payload)
}

// Probe is a probe ping that states hs.
func (r *Raw) Probe(hs wire.Handshake) []byte {
	h := wire.Header{Sequence: r.Seq, Sport: wire.PortProbe, Dport: wire.PortHost}
	r.Seq++
	hs.Put(&h.Extensions)
	return Message(h, nil)
}

// Congestion is a map with the given ports marked.
func Congestion(ports ...uint16) []byte {
	var m wire.CongestionMap
	for _, p := range ports {
		m.Set(p)
	}
	return Message(wire.Header{Flags: wire.FlagCongestion}, m[:])
}

// Next reads one message of any kind.
func (r *Raw) Next() (h wire.Header, payload []byte, err error) {
	var b [wire.HeaderSize]byte
	if _, err = io.ReadFull(r, b[:]); err != nil {
		return h, nil, err
	}
	_ = h.Decode(b[:])
	payload = make([]byte, h.Length)
	_, err = io.ReadFull(r, payload)
	return h, payload, err
}

// NextData reads the next datagram, answering probes on the way.
func (r *Raw) NextData() (wire.Header, []byte) {
	r.Helper()
	for {
		h, b, err := r.Next()
		switch {
		case err != nil:
			r.Fatal(err)
		case h.IsCongestion(), h.Dport == wire.PortProbe && h.Sport == wire.PortHost:
		case h.Sport == wire.PortProbe && h.Dport == wire.PortHost:
			r.pong()
		default:
			return h, b
		}
	}
}

// pong answers a probe.
func (r *Raw) pong() {
	h := wire.Header{Sequence: r.Seq, Sport: wire.PortHost, Dport: wire.PortProbe}
	r.Seq++
	r.Hs.Put(&h.Extensions)
	r.Put(Message(h, nil))
}

// NextMap reads up to the next congestion map.
func (r *Raw) NextMap() *wire.CongestionMap {
	r.Helper()
	for {
		h, b, err := r.Next()
		Must(r, err)
		if h.IsCongestion() {
			return (*wire.CongestionMap)(b)
		}
	}
}

// Serve answers probes and hands datagrams to take until the connection ends.
func (r *Raw) Serve(take func(h wire.Header, b []byte)) error {
	for {
		h, b, err := r.Next()
		switch {
		case err != nil:
			return err
		case h.Sport == wire.PortProbe && h.Dport == wire.PortHost:
			p := wire.Header{Sequence: r.Seq, Sport: wire.PortHost, Dport: wire.PortProbe}
			r.Seq++
			r.Hs.Put(&p.Extensions)
			if _, err := r.Write(Message(p, nil)); err != nil {
				return err
			}
		case h.IsCongestion(), h.Dport == wire.PortProbe && h.Sport == wire.PortHost:
		default:
			take(h, b)
		}
	}
}

// Reset ends the connection with an RST.
func (r *Raw) Reset() {
	_ = r.SetLinger(0)
	_ = r.Close()
}

// Discard reads everything until the connection ends and tells how it did.
func (r *Raw) Discard() error {
	_, err := io.Copy(io.Discard, r.Conn)
	return err
}

// WaitEnd waits until the node has ended the connection, draining it.
func (r *Raw) WaitEnd() {
	r.Helper()
	if err := r.Discard(); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			r.Fatal("the node did not end the connection")
		}
	}
}

func Be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
