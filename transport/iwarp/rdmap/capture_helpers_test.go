package rdmap

import (
	"net/netip"
	"path/filepath"

	"github.com/rds-go/rds/internal/pcap"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// A message of a capture; RDMAP's name for it, and the segments it goes in.
type message struct {
	from     pcap.End
	op       Op
	tagged   ddp.Tagged   // header of the first segment, without Last and ULP
	untagged ddp.Untagged // header of the first segment, without Last and ULP
	payload  []byte
	segment  int  // octets of payload in each; 0: all
	hold     bool // the next message goes into the same TCP segment
}

// capture is one file: an MPA connection and the messages on it.
type capture struct {
	name     string
	rev      uint8
	crc      bool
	markers  bool // both sides ask for markers; dissectors cannot tell the directions apart
	empty    bool // has Sends without payload
	messages []message
}

// counting is n octets with a pattern.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func send(from pcap.End, op Op, msn uint32, payload []byte) message {
	return message{from: from, op: op, untagged: ddp.Untagged{MSN: msn}, payload: payload}
}

func request(from pcap.End, op Op, msn uint32, b body) message {
	return message{from: from, op: op, untagged: ddp.Untagged{MSN: msn}, payload: b.AppendTo(nil)}
}

func terminate(from pcap.End, cause Cause, segment []byte) message {
	t := NewTerminate(cause, segment)
	return message{from: from, op: OpTerminate, untagged: ddp.Untagged{MSN: 1}, payload: t.AppendTo(nil)}
}

const (
	client, server = pcap.Client, pcap.Server

	sink, source = 0x4bc30300, 0xc3986700
	sinkTO       = 0x55e6671d3f30
	sourceTO     = 0x55addb40e370
)

func captures() []capture {
	read := ReadRequest{SinkSTag: sink, SinkTO: sinkTO, Size: 3000, SourceSTag: source, SourceTO: sourceTO}
	text := []byte(rpingText)
	return []capture{
		{name: "messages", rev: 1, crc: true, messages: []message{
			send(client, OpSend, 1, text),
			send(server, OpSend, 1, text[:18]),
			{from: client, op: OpWrite, tagged: ddp.Tagged{STag: source, TO: sourceTO}, payload: counting(3001), segment: 1428},
			send(client, OpSendSolicited, 2, text[:17]),
			{from: client, op: OpSendInvalidate, untagged: ddp.Untagged{MSN: 3, ULPData: source}, payload: text},
			{from: server, op: OpSendSolicitedInvalidate, untagged: ddp.Untagged{MSN: 2, ULPData: sink}, payload: counting(3002), segment: 1424},
			request(server, OpReadRequest, 1, read),
			{from: client, op: OpReadResponse, tagged: ddp.Tagged{STag: sink, TO: sinkTO}, payload: counting(3000), segment: 1428},
			{from: client, op: OpWrite, tagged: ddp.Tagged{STag: source, TO: sourceTO}, payload: counting(6000)}, // larger than a TCP segment
			{from: server, op: OpWrite, tagged: ddp.Tagged{STag: sink, TO: sinkTO}, payload: text, hold: true},
			{from: server, op: OpWrite, tagged: ddp.Tagged{STag: sink, TO: sinkTO + 64}, payload: text, hold: true},
			send(server, OpSend, 3, text), // three FPDUs in one TCP segment
		}},
		// A Read of no octets as RTR, and everything else that may be empty.
		{name: "empty", rev: 2, crc: true, empty: true, messages: []message{
			request(client, OpReadRequest, 1, ReadRequest{SourceSTag: 1}),
			{from: server, op: OpReadResponse},
			{from: client, op: OpWrite, tagged: ddp.Tagged{STag: 1}},
			send(server, OpSend, 1, nil),
			send(client, OpSendSolicited, 1, nil),
			{from: server, op: OpSendInvalidate, untagged: ddp.Untagged{MSN: 2, ULPData: source}},
		}},
		{name: "extensions", rev: 1, crc: true, messages: []message{
			request(client, OpImmediate, 1, Immediate(0x0102030405060708)),
			request(server, OpImmediateSolicited, 1, Immediate(1)),
			request(client, OpAtomicRequest, 1, AtomicRequest{Op: FetchAdd, ID: 1, STag: source, TO: sourceTO, Add: 5, CompareMask: 1<<64 - 1}),
			request(server, OpAtomicResponse, 1, AtomicResponse{ID: 1, Value: 37}),
			request(client, OpAtomicRequest, 2, AtomicRequest{Op: CompareSwap, ID: 2, STag: source, TO: sourceTO,
				Add: 1, AddMask: 1<<64 - 1, Compare: 42, CompareMask: 1<<64 - 1}),
			request(server, OpAtomicResponse, 2, AtomicResponse{ID: 2, Value: 42}),
		}},
		// One iteration of rping against Linux's siw, octet for octet.
		{name: "rping", rev: 2, messages: []message{
			send(client, OpSend, 1, []byte("\x00\x00\x55\xad\xdb\x40\xe3\x70\xc3\x98\x67\x00\x00\x00\x00\x40")),
			request(server, OpReadRequest, 1, ReadRequest{SinkSTag: sink, SinkTO: sinkTO, Size: 64, SourceSTag: source, SourceTO: sourceTO}),
			{from: client, op: OpReadResponse, tagged: ddp.Tagged{STag: sink, TO: sinkTO}, payload: text},
			send(server, OpSend, 1, make([]byte, 16)),
			send(client, OpSend, 2, []byte("\x00\x00\x55\xad\xdb\x40\xe5\x50\x41\x5b\x6f\x00\x00\x00\x00\x40")),
			{from: server, op: OpWrite, tagged: ddp.Tagged{STag: 0x415b6f00, TO: 0x55addb40e550}, payload: text},
			send(server, OpSend, 2, make([]byte, 16)),
		}},
		{name: "markers", rev: 1, crc: true, markers: true, messages: []message{
			send(client, OpSend, 1, counting(488)), // a marker between padding and CRC
			send(client, OpSend, 2, counting(1400)),
			send(server, OpSend, 1, text),
			{from: client, op: OpWrite, tagged: ddp.Tagged{STag: source, TO: sourceTO}, payload: counting(3001), segment: 1400},
			send(client, OpSend, 3, text[:18]),
		}},
		{name: "terminate-rdmap", rev: 1, crc: true, messages: []message{
			request(client, OpReadRequest, 1, read),
			terminate(server, CauseBounds, read.AppendTo(untagged(OpReadRequest, 1).AppendTo(nil))),
		}},
		{name: "terminate-ddp-tagged", rev: 1, crc: true, messages: []message{
			{from: client, op: OpWrite, tagged: ddp.Tagged{STag: 0xdeadbe00, TO: 4096}, payload: text},
			terminate(server, CauseDDPInvalidSTag, append(tagged(OpWrite, 0xdeadbe00, 4096).AppendTo(nil), text...)),
		}},
		{name: "terminate-ddp-untagged", rev: 1, crc: true, messages: []message{
			send(client, OpSend, 2, text),
			terminate(server, CauseDDPMSNRange, append(untagged(OpSend, 2).AppendTo(nil), text...)),
		}},
		{name: "terminate-mpa", rev: 1, crc: true, messages: []message{
			send(client, OpSend, 1, text),
			terminate(server, CauseMPACRC, nil),
		}},
	}
}

// segments are the ULPDUs of a message.
func (m *message) segments() (out [][]byte) {
	rest, mo := m.payload, uint32(0)
	for {
		n := len(rest)
		if m.segment != 0 {
			n = min(n, m.segment)
		}
		last := n == len(rest)
		var b []byte
		if m.op.Tagged() {
			h := m.tagged
			h.TO += uint64(mo)
			h.ULP, h.Last = m.op.Control(), last
			b = h.AppendTo(nil)
		} else {
			h := m.untagged
			h.MO, h.QN, h.ULP, h.Last = mo, m.op.Queue(), m.op.Control(), last
			b = h.AppendTo(nil)
		}
		out = append(out, append(b, rest[:n]...))
		if last {
			return out
		}
		rest, mo = rest[n:], mo+uint32(n)
	}
}

// frames are the Request and the Reply.
func (cp *capture) frames() (request, reply mpa.Frame) {
	request = mpa.Frame{CRC: cp.crc, Rev: cp.rev}
	if cp.rev >= 2 {
		request.Enhanced = true
		prefix := mpa.Prefix{IRD: 1, ORD: 1}
		request.Private = prefix.AppendTo(nil)
	}
	request.Markers = cp.markers
	reply = request
	reply.Reply = true
	return request, reply
}

func (cp *capture) build() []byte {
	conv := pcap.New(netip.MustParseAddrPort("10.9.0.2:40001"), netip.MustParseAddrPort("10.9.0.3:7174"))
	request, reply := cp.frames()
	conv.Send(client, request.AppendTo(nil))
	conv.Send(server, reply.AppendTo(nil))
	var pending []byte
	var marked [2]mpa.MarkerWriter
	for _, m := range cp.messages {
		for _, ulpdu := range m.segments() {
			if cp.markers {
				pending = marked[m.from].Append(pending, mpa.AppendContent(nil, ulpdu), cp.crc)
			} else {
				pending = mpa.AppendFPDU(pending, ulpdu, cp.crc)
			}
			if !m.hold {
				conv.Send(m.from, pending)
				pending = pending[:0]
			}
		}
	}
	conv.Close(client)
	return conv.Bytes()
}

func (cp *capture) path() string { return filepath.Join("testdata", cp.name+".pcap") }
