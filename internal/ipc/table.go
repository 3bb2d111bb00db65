package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/internal/wire"
)

// MaxPeers is the number of slots of a Table: of connections a daemon can show
// to applications. A slot is used again when nothing names it any more: with its next
// generation, if applications were told of it.
const MaxPeers = 16384

const (
	tableMagic = 0x52445354424c00<<8 | Version // "RDSTBL"

	offTableMaps  = 0x40 // grows with each congestion map received
	offTableGen   = 0x80 // the daemon's generation
	offTableBars  = 0xc0 // grows with each change of peerBarred
	tableHead     = pageSize
	tablePeer     = 64 // size of a peer's entry: local and remote address, and what they are
	offTablePeers = tableHead
	offTableBits  = tableHead + MaxPeers*tablePeer
	tableSize     = offTableBits + MaxPeers*wire.CongestionMapSize

	offPeerUsed  = 0  // peerUsed once the rest of the entry is written; peerDown, peerBarred; above them the generation
	offPeerKind  = 4  // address family: 4 or 6
	offPeerZone  = 5  // length of the zone, at most zoneMax
	offPeerScope = 6  // who the zone belongs to: bit 0 local, bit 1 remote
	offPeerLong  = 7  // wire.Limit
	offLocal     = 8  // 16 bytes
	offRemote    = 24 // 16 bytes
	offZone      = 40
	offCarries   = 56 // Carriage
	offServes    = 60 // Server
	zoneMax      = 16 // IFNAMSIZ
	peerUsed     = 1
	peerDown     = 2 // no path of the peer has a link
	peerBarred   = 4 // the peer is not on the daemon's allow-list
	familyV4     = 4
	familyV6     = 6
	slotShift    = 8 // position of the generation in the word at offPeerUsed
	slotBits     = 24
	scopeLocal   = 1
	scopeRemote  = 2
	mapWordBytes = 8
)

// Table is the segment that all applications share, read-only for them: the
// peers of the daemon and their congestion maps.
type Table struct {
	mem     []byte
	written []bool   // element i is about slot i: the peer's map is not all zeros, or was not once
	slots   []uint32 // element i is the generation of slot i's present or next peer
}

// NewTable makes a table and the file to hand to applications, which is sealed
// against any writing but through this mapping.
func NewTable(generation uint32) (*Table, *os.File, error) {
	f, err := memfd("rds-peers", tableSize)
	if err != nil {
		return nil, nil, err
	}
	t := &Table{written: make([]bool, MaxPeers), slots: slices.Repeat([]uint32{1}, MaxPeers)}
	if t.mem, err = mmap(f, tableSize, true); err == nil {
		err = sealWrites(f)
	}
	if err != nil {
		_ = t.Close()
		_ = f.Close()
		return nil, nil, err
	}
	t.word(offTableGen).Store(uint64(generation))
	t.word(0).Store(tableMagic)
	return t, f, nil
}

// OpenTable maps the table in f for reading.
func OpenTable(f *os.File) (*Table, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != tableSize {
		return nil, fmt.Errorf("%w: a table of %d bytes", errLayout, info.Size())
	}
	t := new(Table)
	if t.mem, err = mmap(f, tableSize, false); err != nil {
		return nil, err
	}
	if got := t.word(0).Load(); got != tableMagic {
		_ = t.Close()
		return nil, fmt.Errorf("%w: magic %#x of the table", errLayout, got)
	}
	return t, nil
}

// Close unmaps the table.
func (t *Table) Close() error {
	mem := t.mem
	t.mem = nil
	if mem == nil {
		return nil
	}
	return munmap(mem)
}

func (t *Table) word(off int) *atomic.Uint64 { return atomic64(t.mem[off:]) }

var errZone = errors.New("ipc: zones differ, or are longer than an interface name")

// SetPeer writes slot i, below MaxPeers, which is empty.
func (t *Table) SetPeer(i int, local, remote netip.Addr) error {
	zone, scope := remote.Zone(), uint8(0)
	if zone != "" {
		scope = scopeRemote
	}
	if z := local.Zone(); z != "" {
		if zone != "" && z != zone {
			return errZone
		}
		zone, scope = z, scope|scopeLocal
	}
	if len(zone) > zoneMax {
		return errZone
	}
	b := t.peer(i)
	kind := shape{offPeerKind: familyV6, offPeerScope: scope}
	if remote.Is4() {
		kind[offPeerKind] = familyV4
	}
	kind[offPeerZone] = uint8(copy(b[offZone:offZone+zoneMax], zone))
	kind.store(b)
	l, r := local.As16(), remote.As16()
	copy(b[offLocal:], l[:])
	copy(b[offRemote:], r[:])
	atomic32(b[offPeerUsed:]).Store(peerUsed | t.slots[i]<<slotShift)
	return nil
}

// shape is the octets of an entry that say what it is, by their offsets there, the first of which have no
// meaning. They are one word, for the last of them changes.
type shape [8]byte

func loadShape(b []byte) (s shape) {
	binary.NativeEndian.PutUint32(s[offPeerKind:], atomic32(b[offPeerKind:]).Load())
	return s
}

func (s shape) store(b []byte) {
	atomic32(b[offPeerKind:]).Store(binary.NativeEndian.Uint32(s[offPeerKind:]))
}

// SetLongest says what the longest payload is that the peer of slot i takes. One call at a time may be
// for a slot.
func (t *Table) SetLongest(i int, l wire.Limit) {
	b := t.peer(i)
	s := loadShape(b)
	s[offPeerLong] = byte(l)
	s.store(b)
}

// Longest is the longest payload that the peer of slot i takes, as far as that is known.
func (t *Table) Longest(i int) wire.Limit { return wire.Limit(loadShape(t.peer(i))[offPeerLong]) }

// ClearPeer empties slot i, of which no application was told.
func (t *Table) ClearPeer(i int) {
	b := t.peer(i)
	atomic32(b[offPeerUsed:]).Store(0)
	t.SetCarriage(i, CarriesUnknown)
	t.SetServer(i, ServerUnknown)
	t.SetLongest(i, 0)
	if t.written[i] {
		t.SetMap(i, new(wire.CongestionMap))
		t.written[i] = false
	}
}

// RetirePeer empties slot i, of which applications were told and which nothing names any
// more. The slot's next peer has the next generation.
func (t *Table) RetirePeer(i int) {
	t.ClearPeer(i)
	t.slots[i] = max(1, (t.slots[i]+1)&(1<<slotBits-1))
}

// Slot is the generation of the peer in slot i, 0 if the slot is empty. What was read of the
// slot when its generation was another one is about another peer.
func (t *Table) Slot(i int) uint32 {
	if i < 0 || i >= MaxPeers {
		return 0
	}
	return atomic32(t.peer(i)[offPeerUsed:]).Load() >> slotShift
}

// Slots are the generations of all slots, for Succeed of another daemon's table.
func (t *Table) Slots() []uint32 { return slices.Clone(t.slots) }

// Peer reads slot i.
func (t *Table) Peer(i int) (local, remote netip.Addr, ok bool) {
	if i < 0 || i >= MaxPeers {
		return local, remote, false
	}
	b := t.peer(i)
	if atomic32(b[offPeerUsed:]).Load() == 0 {
		return local, remote, false
	}
	local = netip.AddrFrom16([16]byte(b[offLocal:]))
	remote = netip.AddrFrom16([16]byte(b[offRemote:]))
	kind := loadShape(b)
	if kind[offPeerKind] == familyV4 {
		return local.Unmap(), remote.Unmap(), true
	}
	if n := min(kind[offPeerZone], zoneMax); n > 0 {
		zone := string(b[offZone : offZone+int(n)])
		if kind[offPeerScope]&scopeLocal != 0 {
			local = local.WithZone(zone)
		}
		if kind[offPeerScope]&scopeRemote != 0 {
			remote = remote.WithZone(zone)
		}
	}
	return local, remote, true
}

// peer is slot i; it panics where there is none.
func (t *Table) peer(i int) []byte {
	return t.mem[offTablePeers:offTableBits:offTableBits][i*tablePeer:][:tablePeer]
}

// SetDown says whether slot i, if SetPeer has written it, is of a peer to which there
// is no link, and whether the peer is barred: there may be none. One call at a time may be
// for a slot.
func (t *Table) SetDown(i int, down, barred bool) {
	w := atomic32(t.peer(i)[offPeerUsed:])
	last := w.Load()
	if last == 0 {
		return
	}
	v := peerUsed | last>>slotShift<<slotShift
	if down {
		v |= peerDown
	}
	if barred {
		v |= peerBarred
	}
	w.Store(v)
}

// Down tells whether there is no link to the peer of slot i.
func (t *Table) Down(i int) bool { return atomic32(t.peer(i)[offPeerUsed:]).Load()&peerDown != 0 }

// Barred tells whether nothing can be sent to the peer of slot i, because the daemon's
// allow-list does not name it.
func (t *Table) Barred(i int) bool {
	return atomic32(t.peer(i)[offPeerUsed:]).Load()&peerBarred != 0
}

// CountBar follows a change of what Barred tells of some slot, and Bars counts them.
func (t *Table) CountBar() { t.word(offTableBars).Add(1) }

// Bars is how often CountBar was called.
func (t *Table) Bars() uint64 { return t.word(offTableBars).Load() }

// Carriage is what is known of a connection's links.
type Carriage uint32

// What links carry.
const (
	CarriesUnknown Carriage = iota // there was no connection so far
	CarriesMessages
	CarriesOperations // operations and messages
)

// SetCarriage says what the present or last link of slot i carries.
func (t *Table) SetCarriage(i int, c Carriage) { atomic32(t.peer(i)[offCarries:]).Store(uint32(c)) }

// Carries is what the present or last link of slot i carries.
func (t *Table) Carries(i int) Carriage { return Carriage(atomic32(t.peer(i)[offCarries:]).Load()) }

// Server is which transport serves a peer.
type Server uint32

// Servers.
const (
	ServerUnknown Server = iota // the wire is not decided yet
	ServerXRC
	ServerTCP
	ServerAny // nothing to choose from: an own address, or a single transport
)

// SetServer says what serves the peer of slot i.
func (t *Table) SetServer(i int, s Server) { atomic32(t.peer(i)[offServes:]).Store(uint32(s)) }

// Server is what serves the peer of slot i.
func (t *Table) Server(i int) Server { return Server(atomic32(t.peer(i)[offServes:]).Load()) }

// SetMap writes the congestion map of slot i and counts it. One call at a time
// may be for a slot. Most peers never send a bit: their maps get no memory, not
// even by being looked at, which is enough to give a shared page memory.
func (t *Table) SetMap(i int, m *wire.CongestionMap) {
	if t.written[i] || *m != (wire.CongestionMap{}) {
		t.written[i] = true
		off := offTableBits + i*wire.CongestionMapSize
		for n := 0; n < wire.CongestionMapSize; n += mapWordBytes {
			w := t.word(off + n)
			if v := binary.LittleEndian.Uint64(m[n:]); w.Load() != v { // unchanged cache lines stay shared with readers
				w.Store(v)
			}
		}
	}
	t.word(offTableMaps).Add(1)
}

// Congested tells whether slot i's last map marks the port.
func (t *Table) Congested(i int, port uint16) bool {
	w := t.word(offTableBits + i*wire.CongestionMapSize + int(port)/64*mapWordBytes).Load()
	return w>>(port%64)&1 != 0
}

// Maps counts the congestion maps received from all peers.
func (t *Table) Maps() uint64 { return t.word(offTableMaps).Load() }

// Generation is the daemon's.
func (t *Table) Generation() uint32 { return uint32(t.word(offTableGen).Load()) }

// ServerOf is the Server of the transport with a name; ServerUnknown for another name.
func ServerOf(transport string) Server {
	switch transport {
	case "xrc":
		return ServerXRC
	case "tcp":
		return ServerTCP
	}
	return ServerUnknown
}

// Transport is the name of the transport, empty if it is not known which it is.
func (s Server) Transport() string {
	switch s {
	case ServerXRC:
		return "xrc"
	case ServerTCP:
		return "tcp"
	}
	return ""
}
