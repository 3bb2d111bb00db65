package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCapture is wrapped by what Streams says of a file it does not like.
var ErrCapture = errors.New("pcap: bad capture")

// Streams returns what each end sent in a file made by a Conversation. It is an
// error if any length, checksum, sequence or acknowledgement number is not what
// TCP asks for, so that a file is known to be sound by more than its maker.
func Streams(file []byte) (streams [2][]byte, err error) {
	le := binary.LittleEndian
	if len(file) < fileHeader || le.Uint32(file) != magic || le.Uint32(file[20:]) != linkEther {
		return streams, fmt.Errorf("%w: not a file of Ethernet packets", ErrCapture)
	}
	r := reader{port: -1}
	for n, b := 1, file[fileHeader:]; len(b) > 0; n++ {
		if len(b) < recordHeader {
			return streams, fmt.Errorf("%w: packet %d is cut", ErrCapture, n)
		}
		size, onWire := le.Uint32(b[8:]), le.Uint32(b[12:])
		b = b[recordHeader:]
		if size != onWire || uint64(size) > uint64(len(b)) {
			return streams, fmt.Errorf("%w: packet %d is cut", ErrCapture, n)
		}
		if what := r.packet(b[:size]); what != "" {
			return streams, fmt.Errorf("%w: packet %d: %s", ErrCapture, n, what)
		}
		b = b[size:]
	}
	return r.streams, nil
}

// reader follows both ends of a connection from its first packet on.
type reader struct {
	port    int       // port of the client, -1 before the first packet
	next    [2]uint32 // next sequence number of each side
	streams [2][]byte
}

// packet returns what is wrong with one, or nothing.
func (r *reader) packet(frame []byte) (wrong string) {
	be := binary.BigEndian
	if len(frame) < etherLen+ipLen+tcpLen {
		return "too short"
	}
	ip, tcp := frame[etherLen:etherLen+ipLen], frame[etherLen+ipLen:]
	if int(be.Uint16(ip[2:])) != len(ip)+len(tcp) {
		return "IP length"
	}
	if sum(0, ip) != 0xffff {
		return "IP checksum"
	}
	if sum(pseudo([4]byte(ip[12:16]), [4]byte(ip[16:20]), len(tcp)), tcp) != 0xffff {
		return "TCP checksum"
	}
	seq, ack, flags, payload := be.Uint32(tcp[4:]), be.Uint32(tcp[8:]), tcp[13], tcp[tcpLen:]
	if r.port < 0 {
		r.port = int(be.Uint16(tcp))
	}
	from := Server
	if int(be.Uint16(tcp)) == r.port {
		from = Client
	}
	if flags&flagSyn != 0 {
		r.next[from] = seq
	}
	if seq != r.next[from] {
		return "sequence number"
	}
	if flags&flagAck != 0 && ack != r.next[from.other()] {
		return "acknowledgement"
	}
	r.next[from] += advance(flags, payload)
	r.streams[from] = append(r.streams[from], payload...)
	return ""
}
