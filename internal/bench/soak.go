package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// A soak is a Stress with operations: the clients' sockets exchange verified messages,
// and operations on memory, with the servers' sockets. Connections may be cut meanwhile,
// processes killed and daemons restarted. Each socket has a number on its side, and lives:
// one ends with its process, or with the daemon it is attached to, and the next one
// begins, at the same address if it is a server's. What is exact in spite of that is
// kept in journals, in files if they are to survive a process; soakCheck reads them.
//
// A lane of a client socket does one exchange at a time. It has a region of its own at
// every server socket, and so knows what is there. It asks for regions (turnHello)
// after the life of either end has begun and now and then besides: the server then
// ends the region that the lane had and looks later whether anything was written there.

// Bounds of a soak.
const (
	soakRDSPort  = 2000     // RDS port of the server's socket 0, if processes are killed; the others follow
	maxSoakPlace = 64 << 10 // bytes of a region
	minSoakPlace = 64
	soakMemory   = 16 << 20 // bytes of all regions of a process, those that have ended included
	maxSoakLanes = 1 << 12  // lanes of all clients
)

// mortal tells whether processes are killed or daemons restarted.
func (w *Work) mortal() bool { return w.Kills > 0 || w.Restarts > 0 }

// clients and servers are the numbers of processes.
func (w *Work) clients() int { return max(w.Processes, 1) }
func (w *Work) servers() int {
	if w.mortal() {
		return w.Processes
	}
	return 1
}

// soakSockets are the client's sockets, of all processes.
func (w *Work) soakSockets() int { return w.clients() * w.Sockets }

// soakPlace is the size of a lane's region.
func (w *Work) soakPlace() int {
	n := 2 * max(w.Peers, 1) * max(w.soakSockets()*w.Depth, 1)
	return min(maxSoakPlace, soakMemory/n) &^ 63
}

// checkSoak refuses works out of bounds.
func (w *Work) checkSoak() bool {
	return w.Processes >= 0 && w.Processes <= 64 && w.Sockets >= 1 && w.Depth >= 1 && w.Depth <= maxDepth && w.Peers >= 1 && w.Peers <= maxSockets &&
		w.soakSockets()*w.Depth <= maxSoakLanes && w.soakPlace() >= minSoakPlace &&
		w.Reply >= soakHeader && w.Reply <= rds.MaxMessage && w.maxSize() >= soakHeader && w.maxSize() <= rds.MaxMessage
}

// soakSpec is what a process of a soak is told.
type soakSpec struct {
	Work    *Work         `json:"work"`
	Server  bool          `json:"server,omitempty"`
	Index   int           `json:"index"`             // index of the process on its side
	Process uint64        `json:"process"`           // number of the process in its place, from 1
	Journal string        `json:"journal,omitempty"` // directory; empty: the process tells its journals when it stops
	Peers   []soakPeer    `json:"peers,omitempty"`   // the server's sockets, as they are now
	Attach  time.Duration `json:"attach"`            // how long to try to get an address
}

// soakPeer is a server socket.
type soakPeer struct {
	Socket int            `json:"socket"`
	Addr   netip.AddrPort `json:"addr"`
	Life   uint64         `json:"life"` // the socket's present life; earlier ones are over
	Host   uint64         `json:"host"` // generation of the host that serves the socket
}

// lifeBits is where the number of the process begins in that of a life.
const lifeBits = 20

// soakMessage begins every message. The rest is a pattern.
type soakMessage struct {
	Kind     uint32
	Length   uint32 // length of the whole message
	From, To uint32 // sockets
	FromLife uint64
	ToLife   uint64 // life of the receiver; in a request: as far as the client knows
	Number   uint64 // between the two sockets, in the life of the client (and of the server, of a reply)
	Exchange uint64 // lane<<48 | number of the exchange
	Turn     uint32
	Off, N   uint32 // offset and length of the place
	Epoch    uint32 // epoch of the lane's region

	Region, ReadOnly, Shared uint64 // keys, in the reply to a turnHello; of a turnBad what is wrong
}

const soakHeader = 88 // bytes: soakMessage, little-endian

// Kinds of soakMessage, and of other patterns.
const (
	kindAsk      uint32 = 0x52
	kindAnswer   uint32 = 0x42
	kindPlaced   uint32 = 0x58 // written by RDMA
	kindReleased uint32 = 0x59 // content of a region that has ended
)

// turn is what an exchange does.
type turn uint8

const (
	turnPlain  turn = iota // a message without an operation
	turnWrite              // the server checks what was written, when it has the message
	turnRead               // the read has to bring what is known
	turnAdd                // addition to a word of the place
	turnSwap               // swap of a word of the place
	turnShared             // addition to a word that all lanes add to
	turnBad                // a key, an address or a right that is not there: must be refused
	turnHello              // asks for a new region
	turnBoth               // a write, and an addition to the shared word
	turns
)

// fill makes b the message.
func (m *soakMessage) fill(b []byte) error {
	m.Length = uint32(len(b))
	if _, err := binary.Encode(b, binary.LittleEndian, m); err != nil {
		return err
	}
	fillPattern(b[soakHeader:], m.pattern(m.Kind))
	return nil
}

// pattern is the first word of the pattern of a kind.
func (m *soakMessage) pattern(kind uint32) uint64 {
	x := uint64(kind)<<48 ^ uint64(m.From)<<24 ^ uint64(m.To) ^ m.FromLife*0x9e3779b97f4a7c15
	return (x^m.Exchange*0xbf58476d1ce4e5b9^m.Number*0x94d049bb133111eb)&^(1<<63) | 1<<62
}

// parse takes a message apart and checks every byte of it.
func (m *soakMessage) parse(b []byte, kind uint32) error {
	if len(b) < soakHeader {
		return fmt.Errorf("verify: a message of %d bytes", len(b))
	}
	if _, err := binary.Decode(b, binary.LittleEndian, m); err != nil {
		return err
	}
	if m.Kind != kind || int(m.Length) != len(b) {
		return fmt.Errorf("verify: a message of kind %#x and %d bytes, not of kind %#x and %d", m.Kind, m.Length, kind, len(b))
	}
	if err := checkPattern(b[soakHeader:], m.pattern(kind)); err != nil {
		return fmt.Errorf("verify: message %d of socket %d, life %#x: %w", m.Number, m.From, m.FromLife, err)
	}
	return nil
}

// validateSoak checks what goes with --rdma.
func (o *Options) validateSoak(check func(ok bool, format string, args ...any)) {
	w := o.many(Work{Sizes: o.Sizes, Processes: o.Processes, Kills: o.Kills, Restarts: o.Restarts})
	check(o.Fault == FaultNone && o.Provider != rds.ProviderKernel && o.wire() != rds.WireTCP, "--rdma needs nodes or daemons that speak XRC")
	check(o.Processes == 0 || o.Server == "", "--processes goes without --server")
	check(w.checkSoak(), "--processes, --sockets, --peers and --depth leave less than %d bytes for each region, or messages have less than %d", minSoakPlace, soakHeader)
	for name, d := range map[string]time.Duration{"--kills": o.Kills, "--restarts": o.Restarts} {
		check(d == 0 || d >= 10*time.Millisecond && d <= time.Hour, "%s is 10ms to 1h, not %v", name, d)
	}
	if w.mortal() {
		check(o.Server == "" && o.Repeat == 1 && o.Paths == 1, "--kills and --restarts go without --server, with --repeat 1 and --paths 1")
		check(o.Restarts == 0 || o.Provider == rds.ProviderDaemon, "--restarts is of daemons: it needs --provider rdsd")
		check(o.Processes >= 1, "--kills and --restarts are of --processes")
	}
}
