//go:build live

package ebpf

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Frames for BPF_PROG_TEST_RUN. Checksums are left 0: no filter looks at them.

const (
	fin, syn, rst, psh, ack = 0x01, 0x02, 0x04, 0x08, 0x10

	protoTCP, protoUDP                                          = 6, 17
	extHopOpts, extRouting, extFragment, extAH, extDst, extNone = 0, 43, 44, 51, 60, 59

	tagQ, tagAD = 0x8100, 0x88a8
)

// tcpSegment is a TCP header and data.
func tcpSegment(port uint16, flags byte, data int) []byte {
	b := make([]byte, 20+data)
	binary.BigEndian.PutUint16(b, 40000)
	binary.BigEndian.PutUint16(b[2:], port)
	b[12], b[13] = 5<<4, flags
	return b
}

// packet4 is an IPv4 packet with a number of words of options. fragment is the field of flags
// and offset.
func packet4(from netip.Addr, proto byte, options int, fragment uint16, payload []byte) []byte {
	n := 20 + 4*options
	b := make([]byte, n, n+len(payload))
	b[0], b[8], b[9] = 0x40|byte(n/4), 64, proto
	binary.BigEndian.PutUint16(b[2:], uint16(n+len(payload)))
	binary.BigEndian.PutUint16(b[6:], fragment)
	copy(b[12:], from.AsSlice())
	copy(b[16:], []byte{127, 0, 0, 1})
	for i := 20; i < n; i++ {
		b[i] = 1 // no operation
	}
	return append(b, payload...)
}

// extension is an IPv6 extension header of one kind: its length in units of 8 octets, or the
// field of offset and flags of a fragment header.
type extension struct {
	kind     byte
	length   int
	fragment uint16
}

// packet6 is an IPv6 packet.
func packet6(from netip.Addr, proto byte, extensions []extension, payload []byte) []byte {
	var body []byte
	for i, x := range extensions {
		next := proto
		if i+1 < len(extensions) {
			next = extensions[i+1].kind
		}
		h := make([]byte, 8*max(x.length, 1))
		h[0], h[1] = next, byte(len(h)/8-1)
		switch x.kind {
		case extFragment:
			h[1] = 0
			binary.BigEndian.PutUint16(h[2:], x.fragment)
		case extAH:
			h[1] = byte(len(h)/4 - 2)
		}
		body = append(body, h...)
	}
	body = append(body, payload...)
	b := make([]byte, 40)
	b[0], b[6], b[7] = 0x60, proto, 64
	if len(extensions) > 0 {
		b[6] = extensions[0].kind
	}
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	copy(b[8:], from.AsSlice())
	b[39] = 1 // to ::1
	return append(b, body...)
}

// ethernet puts an IP packet behind an Ethernet header with VLAN tags. It is to loopback, on which
// test runs come in.
func ethernet(packet []byte, tags ...uint16) []byte {
	b := []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2}
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag)
		b = append(b, 0, 5) // VLAN 5
	}
	if packet[0]>>4 == 4 {
		return append(append(b, 0x08, 0x00), packet...)
	}
	return append(append(b, 0x86, 0xdd), packet...)
}

// packetCase is a packet from an address, and whether a stranger's is dropped.
type packetCase struct {
	name   string
	packet func(from netip.Addr) []byte
	v6     bool
	drop   bool
}

func packetCases() (cases []packetCase) {
	add := func(name string, v6, drop bool, packet func(from netip.Addr) []byte) {
		cases = append(cases, packetCase{name: name, v6: v6, drop: drop, packet: packet})
	}
	four := func(name string, drop bool, options int, fragment uint16, payload []byte) {
		add("IPv4 "+name, false, drop, func(a netip.Addr) []byte { return packet4(a, protoTCP, options, fragment, payload) })
	}
	six := func(name string, drop bool, proto byte, payload []byte, x ...extension) {
		add("IPv6 "+name, true, drop, func(a netip.Addr) []byte { return packet6(a, proto, x, payload) })
	}
	for _, s := range []struct {
		name string
		seg  []byte
		drop bool
	}{
		{"SYN to 16385", tcpSegment(16385, syn, 0), true},
		{"SYN to 18634", tcpSegment(18634, syn, 0), true},
		{"SYN with data", tcpSegment(16385, syn, 100), true},
		{"SYN and ECN's flags", tcpSegment(16385, syn|0xc0, 0), true},
		{"SYN to 22", tcpSegment(22, syn, 0), false},
		{"SYN to 16384", tcpSegment(16384, syn, 0), false},
		{"SYN+ACK", tcpSegment(16385, syn|ack, 0), false},
		{"ACK", tcpSegment(16385, ack, 0), false},
		{"data", tcpSegment(16385, psh|ack, 1000), false},
		{"FIN", tcpSegment(16385, fin|ack, 0), false},
		{"RST", tcpSegment(16385, rst, 0), false},
		{"no flags", tcpSegment(16385, 0, 0), false},
	} {
		four(s.name, s.drop, 0, 0, s.seg)
		four(s.name+", do not fragment", s.drop, 0, 0x4000, s.seg)
		four(s.name+", options of 4", s.drop, 1, 0, s.seg)
		four(s.name+", options of 40", s.drop, 10, 0, s.seg)
		four(s.name+", first fragment", s.drop, 0, 0x2000, s.seg)
		four(s.name+", last fragment at 1,480", false, 0, 185, s.seg)
		four(s.name+", middle fragment at 16", false, 0, 0x2000|2, s.seg)
		six(s.name, s.drop, protoTCP, s.seg)
		for _, x := range []extension{{kind: extHopOpts}, {kind: extRouting, length: 3}, {kind: extDst, length: 2}, {kind: extAH, length: 3}, {kind: extFragment}, {kind: extFragment, fragment: 1}} {
			six(s.name+", one extension", s.drop, protoTCP, s.seg, x)
		}
		six(s.name+", four extensions", s.drop, protoTCP, s.seg, extension{kind: extHopOpts}, extension{kind: extAH, length: 2}, extension{kind: extDst, length: 4}, extension{kind: extFragment})
		six(s.name+", eight extensions", s.drop, protoTCP, s.seg, slices.Repeat([]extension{{kind: extDst}}, 8)...)
		six(s.name+", nine extensions", true, protoTCP, s.seg, slices.Repeat([]extension{{kind: extDst}}, 9)...)
		six(s.name+", later fragment", false, protoTCP, s.seg, extension{kind: extFragment, fragment: 185 << 3})
	}
	// A first fragment that does not show its flags, and the fragment that would overwrite them.
	for n := range tcpShown {
		ours, other := tcpSegment(16385, syn, 0)[:n], tcpSegment(22, syn, 0)[:n]
		four("first fragment with a piece of TCP", true, 0, 0x2000, ours)
		four("first fragment with a piece of TCP to 22", n < 4, 0, 0x2000, other)
		six("first fragment with a piece of TCP", true, protoTCP, ours, extension{kind: extFragment, fragment: 1})
		six("first fragment with a piece of TCP to 22", n < 4, protoTCP, other, extension{kind: extFragment, fragment: 1})
	}
	padded := func(a netip.Addr) []byte { // what is behind the packet's length does not count
		return append(packet4(a, protoTCP, 0, 0x2000, tcpSegment(16385, ack, 0)[:8]), tcpSegment(16385, ack, 0)[8:]...)
	}
	add("IPv4 first fragment with a piece of TCP, padded", false, true, padded)
	four("fragment at 8", true, 0, 1, tcpSegment(16385, syn, 0)[8:])
	four("fragment at 8, more", true, 0, 0x2000|1, tcpSegment(16385, syn, 0)[8:])
	six("fragment at 8", true, protoTCP, tcpSegment(16385, syn, 0)[8:], extension{kind: extFragment, fragment: 1 << 3})
	// What is no TCP.
	add("IPv4 UDP", false, false, func(a netip.Addr) []byte { return packet4(a, protoUDP, 0, 0, tcpSegment(16385, syn, 0)) })
	add("IPv4 UDP, fragment at 8", false, false, func(a netip.Addr) []byte { return packet4(a, protoUDP, 0, 1, tcpSegment(16385, syn, 0)) })
	six("UDP", false, protoUDP, tcpSegment(16385, syn, 0))
	six("UDP, fragment at 8", false, protoUDP, tcpSegment(16385, syn, 0), extension{kind: extFragment, fragment: 1 << 3})
	six("nothing", false, extNone, tcpSegment(16385, syn, 0))
	six("SYN, version 5", false, protoTCP, tcpSegment(16385, syn, 0))
	last := &cases[len(cases)-1]
	good := last.packet
	last.packet = func(a netip.Addr) []byte { b := good(a); b[0] = 0x50; return b }
	return cases
}

// tcpShown is the size of struct tcp_start of admission.bpf.c.
const tcpShown = 14
