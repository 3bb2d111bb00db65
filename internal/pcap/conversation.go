package pcap

import (
	"encoding/binary"
	"net/netip"
)

// Sizes of headers, none of which has options.
const (
	fileHeader   = 24
	recordHeader = 16
	etherLen     = 14
	ipLen        = 20
	tcpLen       = 20
)

// Flags of a TCP header, RFC 9293 section 3.1.
const (
	flagFin = 0x01
	flagSyn = 0x02
	flagPsh = 0x08
	flagAck = 0x10
)

// MSS is how many octets a packet of a Conversation carries at most.
const MSS = 1460

const (
	magic       = 0xa1b2c3d4 // microseconds, in the byte order of the file
	linkEther   = 1
	startSecond = 1700000000
	stepMicros  = 1000 // time between packets
)

// End is one side of a Conversation.
type End int

// The two sides.
const (
	Client End = 0 // connects
	Server End = 1
)

func (e End) other() End { return 1 - e }

// Conversation is a capture file in the making. The same calls make the same
// file, octet by octet.
type Conversation struct {
	out    []byte
	ends   [2]end
	micros uint32
}

type end struct {
	addr netip.AddrPort // IPv4
	next uint32         // TCP sequence number
}

// New returns a capture of a connection that the client has just opened to the
// server. Both addresses are IPv4. The server's numbers wrap early.
func New(client, server netip.AddrPort) *Conversation {
	c := &Conversation{ends: [2]end{{client, 0x10000000}, {server, 0xfffffff0}}}
	le := binary.LittleEndian
	c.out = le.AppendUint32(c.out, magic)
	c.out = le.AppendUint16(c.out, 2)
	c.out = le.AppendUint16(c.out, 4)
	c.out = le.AppendUint64(c.out, 0) // time zone, accuracy
	c.out = le.AppendUint32(c.out, 0xffff)
	c.out = le.AppendUint32(c.out, linkEther)
	c.packet(Client, flagSyn, nil)
	c.packet(Server, flagSyn|flagAck, nil)
	c.packet(Client, flagAck, nil)
	return c
}

// Send writes octets of the stream from one end to the other, in as few packets
// as they need. The other end acknowledges them in a packet of its own.
func (c *Conversation) Send(from End, stream []byte) {
	for len(stream) > 0 {
		n := min(len(stream), MSS)
		flags := byte(flagAck)
		if n == len(stream) {
			flags |= flagPsh
		}
		c.packet(from, flags, stream[:n])
		stream = stream[n:]
	}
	c.packet(from.other(), flagAck, nil)
}

// Close ends the connection, from one end and then from the other.
func (c *Conversation) Close(first End) {
	c.packet(first, flagFin|flagAck, nil)
	c.packet(first.other(), flagFin|flagAck, nil)
	c.packet(first, flagAck, nil)
}

// Bytes is the file as it is now.
func (c *Conversation) Bytes() []byte { return c.out }

func (c *Conversation) packet(from End, flags byte, payload []byte) {
	src, dst := &c.ends[from], &c.ends[from.other()]
	be, le := binary.BigEndian, binary.LittleEndian
	srcIP, dstIP := src.addr.Addr().As4(), dst.addr.Addr().As4()
	size := etherLen + ipLen + tcpLen + len(payload)

	c.micros += stepMicros
	c.out = le.AppendUint32(c.out, startSecond+c.micros/1e6)
	c.out = le.AppendUint32(c.out, c.micros%1e6)
	c.out = le.AppendUint32(c.out, uint32(size))
	c.out = le.AppendUint32(c.out, uint32(size))

	c.out = append(c.out, 2, 0, 0, 0, 0, dstIP[3], 2, 0, 0, 0, 0, srcIP[3], 8, 0) // made-up MACs, IPv4

	start := len(c.out)
	c.out = append(c.out, 0x45, 0)
	c.out = be.AppendUint16(c.out, uint16(size-etherLen))
	c.out = append(c.out, 0, 0, 0x40, 0, 64, 6, 0, 0) // don't fragment, TTL 64, TCP
	c.out = append(append(c.out, srcIP[:]...), dstIP[:]...)
	ip := c.out[start:]
	be.PutUint16(ip[10:], ^sum(0, ip))

	var ack uint32
	if flags&flagAck != 0 {
		ack = dst.next
	}
	start = len(c.out)
	c.out = be.AppendUint16(c.out, src.addr.Port())
	c.out = be.AppendUint16(c.out, dst.addr.Port())
	c.out = be.AppendUint32(c.out, src.next)
	c.out = be.AppendUint32(c.out, ack)
	c.out = append(c.out, tcpLen/4<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	c.out = append(c.out, payload...)
	tcp := c.out[start:]
	be.PutUint16(tcp[16:], ^sum(pseudo(srcIP, dstIP, len(tcp)), tcp))

	src.next += advance(flags, payload)
}

// advance is how many sequence numbers a packet takes.
func advance(flags byte, payload []byte) uint32 {
	n := uint32(len(payload))
	if flags&(flagSyn|flagFin) != 0 {
		n++
	}
	return n
}
