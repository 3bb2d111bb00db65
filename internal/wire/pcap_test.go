package wire

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
)

var update = flag.Bool("update", false, "write testdata/rds-tcp.pcap anew")

// A conversation of two hosts, as net/rds holds it: 10.9.0.2 is the smaller
// address and connects to port 16385 of 10.9.0.3. Ethernet, IPv4, TCP, with
// right checksums, so that any dissector opens it without complaint.
const (
	pcapHeader = 24 // file header
	pcapRecord = 16 // header of each packet
	etherSize  = 14
	ipSize     = 20
	tcpSize    = 20
	segment    = 1460

	tcpFin = 0x01
	tcpSyn = 0x02
	tcpPsh = 0x08
	tcpAck = 0x10
)

// host is one end of the connection while packets are made.
type host struct {
	ip   [4]byte
	port uint16
	next uint32 // TCP sequence number of the next byte
}

type capture struct {
	out  []byte
	ends [2]host // 0 connects, 1 listens
	usec uint32
}

func newCapture() *capture {
	c := &capture{ends: [2]host{
		{ip: [4]byte{10, 9, 0, 2}, port: 40001, next: 0x10000000},
		{ip: [4]byte{10, 9, 0, 3}, port: 16385, next: 0xfffffff0}, // wraps within the first map
	}}
	le := binary.LittleEndian
	c.out = le.AppendUint32(c.out, 0xa1b2c3d4)
	c.out = le.AppendUint16(c.out, 2)
	c.out = le.AppendUint16(c.out, 4)
	c.out = append(c.out, 0, 0, 0, 0, 0, 0, 0, 0)
	c.out = le.AppendUint32(c.out, 65535)
	c.out = le.AppendUint32(c.out, 1) // Ethernet
	return c
}

// send writes payload, in segments, from one end to the other, which
// acknowledges it with a packet of its own.
func (c *capture) send(from int, payload []byte) {
	for len(payload) > 0 {
		n := min(len(payload), segment)
		flags := byte(tcpAck)
		if n == len(payload) {
			flags |= tcpPsh
		}
		c.packet(from, flags, payload[:n])
		payload = payload[n:]
	}
	c.packet(1-from, tcpAck, nil)
}

func (c *capture) packet(from int, flags byte, payload []byte) {
	src, dst := &c.ends[from], &c.ends[1-from]
	be := binary.BigEndian
	total := ipSize + tcpSize + len(payload)

	ip := []byte{0x45, 0}
	ip = be.AppendUint16(ip, uint16(total))
	ip = append(ip, 0, 0, 0x40, 0, 64, 6, 0, 0) // don't fragment, TTL, TCP
	ip = append(append(ip, src.ip[:]...), dst.ip[:]...)
	be.PutUint16(ip[10:], internetSum(ip))

	var ack uint32
	if flags&tcpAck != 0 {
		ack = dst.next
	}
	tcp := be.AppendUint16(nil, src.port)
	tcp = be.AppendUint16(tcp, dst.port)
	tcp = be.AppendUint32(tcp, src.next)
	tcp = be.AppendUint32(tcp, ack)
	tcp = append(tcp, tcpSize/4<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	tcp = append(tcp, payload...)
	be.PutUint16(tcp[16:], internetSum(pseudo(ip, len(tcp)), tcp))

	c.usec += 1000
	le := binary.LittleEndian
	size := uint32(etherSize + total)
	c.out = le.AppendUint32(c.out, 1700000000)
	c.out = le.AppendUint32(c.out, c.usec)
	c.out = le.AppendUint32(le.AppendUint32(c.out, size), size)
	c.out = append(c.out, 2, 0, 0, 0, 0, dst.ip[3], 2, 0, 0, 0, 0, src.ip[3], 8, 0)
	c.out = append(append(c.out, ip...), tcp...)

	src.next += uint32(len(payload))
	if flags&(tcpSyn|tcpFin) != 0 {
		src.next++
	}
}

// pseudo is the pseudo header of RFC 9293 section 3.1.
func pseudo(ip []byte, tcpLen int) []byte {
	return binary.BigEndian.AppendUint16(append(bytes.Clone(ip[12:20]), 0, 6), uint16(tcpLen))
}

// internetSum is RFC 1071 over parts, all of even length but the last.
func internetSum(parts ...[]byte) uint16 {
	var s uint32
	for _, b := range parts {
		for i, v := range b {
			if i%2 == 0 {
				s += uint32(v) << 8
			} else {
				s += uint32(v)
			}
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// conversation names the goldens each end sends, in the order of the capture;
// those of one step travel in the same segments.
var conversation = []struct {
	from     int
	messages []string
}{
	{0, []string{"E1"}}, // the map comes first
	{0, []string{"E2"}},
	{1, []string{"E1"}},
	{1, []string{"E2", "E3"}}, // its own probe, and the pong behind it in one segment
	{0, []string{"E6"}},
	{0, []string{"E7"}}, // the pong to the other side's probe
}

func buildCapture(t *testing.T) []byte {
	c := newCapture()
	c.packet(0, tcpSyn, nil)
	c.packet(1, tcpSyn|tcpAck, nil)
	c.packet(0, tcpAck, nil)
	for _, step := range conversation {
		var b []byte
		for _, name := range step.messages {
			b = append(b, hexfile.Read(t, name)...)
		}
		c.send(step.from, b)
	}
	c.packet(0, tcpFin|tcpAck, nil)
	c.packet(1, tcpFin|tcpAck, nil)
	c.packet(0, tcpAck, nil)
	return c.out
}

// TestCapture holds testdata/rds-tcp.pcap to what the goldens say, and reads
// it back the way a receiver does, so that the file is known to be sound by
// more than its own builder.
func TestCapture(t *testing.T) {
	path := filepath.Join("testdata", "rds-tcp.pcap")
	built := buildCapture(t)
	if *update {
		if err := os.WriteFile(path, built, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, built) {
		t.Fatalf("%s is not what the goldens give; run go test ./internal/wire -run TestCapture -update", path)
	}

	var want [2][]string
	for _, step := range conversation {
		want[step.from] = append(want[step.from], step.messages...)
	}
	for end, stream := range streams(t, file) {
		for _, name := range want[end] {
			var h Header
			if err := h.Decode(stream); err != nil {
				t.Fatalf("end %d, %s: %v", end, name, err)
			}
			n := HeaderSize + int(h.Length)
			if golden := hexfile.Read(t, name); len(stream) < n || !bytes.Equal(stream[:n], golden) {
				t.Fatalf("end %d: %+v is not %s", end, h, name)
			}
			stream = stream[n:]
		}
		if len(stream) != 0 {
			t.Errorf("end %d: %d bytes left over", end, len(stream))
		}
	}
}

// streams takes the two directions out of a capture and checks every length,
// checksum and sequence number on the way.
func streams(t *testing.T, file []byte) (out [2][]byte) {
	t.Helper()
	var next [2]uint32
	be, le := binary.BigEndian, binary.LittleEndian
	for n, b := 0, file[pcapHeader:]; len(b) > 0; n++ {
		size := int(le.Uint32(b[8:]))
		frame := b[pcapRecord : pcapRecord+size]
		b = b[pcapRecord+size:]
		ip := frame[etherSize : etherSize+ipSize]
		tcp := frame[etherSize+ipSize:]
		if int(be.Uint16(ip[2:])) != len(ip)+len(tcp) {
			t.Fatalf("packet %d: wrong IP length", n)
		}
		if s := internetSum(ip); s != 0 {
			t.Fatalf("packet %d: IP checksum off by %#04x", n, s)
		}
		if s := internetSum(pseudo(ip, len(tcp)), tcp); s != 0 {
			t.Fatalf("packet %d: TCP checksum off by %#04x", n, s)
		}
		from := 0
		if be.Uint16(tcp) == 16385 {
			from = 1
		}
		seq, flags, payload := be.Uint32(tcp[4:]), tcp[13], tcp[tcpSize:]
		if flags&tcpSyn == 0 && seq != next[from] {
			t.Fatalf("packet %d: sequence %#08x, want %#08x", n, seq, next[from])
		}
		if flags&tcpAck != 0 && be.Uint32(tcp[8:]) != next[1-from] {
			t.Fatalf("packet %d: acknowledges %#08x, want %#08x", n, be.Uint32(tcp[8:]), next[1-from])
		}
		next[from] = seq + uint32(len(payload))
		if flags&(tcpSyn|tcpFin) != 0 {
			next[from]++
		}
		out[from] = append(out[from], payload...)
	}
	return out
}
