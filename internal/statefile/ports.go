package statefile

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// Owner is whose a port is: an application of a daemon, or the program that has the file. A port
// that the file has from a daemon which did not note the owner has none.
type Owner struct {
	UID     uint32
	Process Process
	Place   uint64   // tells the containers apart whose root is the host's; 0: none of them
	Secret  [16]byte // of a secret that the application has; zero: there is none

	slot  int // -1: the file has no room for it
	ports int // number of its ports and service ids in the file
	ended bool
}

// Process names a process of one boot for ever, as its number alone does not.
type Process struct {
	PID   uint32 // 0: not known
	Start uint64 // when it has begun, in ticks of the kernel since boot
	Space uint64 // inode number of the namespace of PID
}

// ownerEntry is an Owner in the file. What a daemon without owners takes for the mark of a used
// peer, and for the length of its name, is 0.
type ownerEntry struct {
	_      uint32
	used   uint32
	uid    uint32
	pid    uint32
	start  uint64
	space  uint64
	place  uint64
	secret [16]byte
	_      [ownerSize - 56]byte
}

// heldPort is a port in the file.
type heldPort struct {
	slot  int
	owner *Owner
}

const portUsed = 1 << 63

func portWord(address, owner int, port uint16) uint64 {
	return portUsed | uint64(address)<<32 | uint64(owner)<<16 | uint64(port)
}

// Own puts an owner into the file, before the owner has ports.
func (s *File) Own(o *Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ownLocked(o)
}

func (s *File) ownLocked(o *Owner) {
	o.slot = -1
	if s.lost.Load() {
		return
	}
	o.slot = s.owners.take(func(slot int) bool { return s.roomLocked(offOwners+slot*ownerSize, ownerSize) })
	if o.slot >= 0 {
		s.inSlots[o.slot] = o
		s.storeOwnerLocked(o)
	}
}

func (s *File) storeOwnerLocked(o *Owner) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	e := s.ownerLocked(o.slot)
	e.uid, e.pid, e.start, e.space, e.place, e.secret = o.UID, o.Process.PID, o.Process.Start, o.Process.Space, o.Place, o.Secret
	atomic.StoreUint32(&e.used, 1)
}

func (s *File) ownerLocked(slot int) *ownerEntry {
	return (*ownerEntry)(unsafe.Pointer(&s.mem[offOwners+slot*ownerSize]))
}

// ownerOrSelfLocked is o, or the owner that this process is.
func (s *File) ownerOrSelfLocked(o *Owner) *Owner {
	if o != nil {
		return o
	}
	if s.own == nil {
		s.own = &Owner{UID: uint32(os.Geteuid()), Process: ProcessOf(os.Getpid())}
		s.ownLocked(s.own)
	}
	return s.own
}

// Disown says that an owner takes no more ports. It is in the file as long as it has some.
func (s *File) Disown(o *Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.ended = true
	s.forgetOwnerLocked(o)
}

func (s *File) forgetOwnerLocked(o *Owner) {
	if o == nil || !o.ended || o.ports > 0 || o.slot < 0 {
		return
	}
	s.clearOwnerLocked(o.slot)
	delete(s.inSlots, o.slot)
	s.owners.give(o.slot)
	o.slot = -1
}

func (s *File) clearOwnerLocked(slot int) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	atomic.StoreUint32(&s.ownerLocked(slot).used, 0)
}

// Hold notes that an owner has a port; nil: this process. A port that the file has no room for
// is not in the file: nobody waits for it after a restart.
func (s *File) Hold(addr netip.Addr, port uint16, o *Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o = s.ownerOrSelfLocked(o)
	key := netip.AddrPortFrom(addr, port)
	number, ok := s.addressLocked(addr)
	if !ok || o.slot < 0 {
		s.freeLocked(key) // it may be another one's
		return
	}
	h, ok := s.ports[key]
	if !ok {
		h.slot = s.portSlots.take(func(slot int) bool { return s.roomLocked(offPorts+slot*portSize, portSize) })
		if h.slot < 0 {
			return
		}
	}
	before := h.owner
	h.owner = o
	o.ports++
	s.ports[key] = h
	s.storeLocked(offPorts+h.slot*portSize, portWord(number, o.slot, port))
	s.markLocked(number, port, true)
	if before != nil {
		before.ports--
		s.forgetOwnerLocked(before)
	}
}

// Free notes that a port has no socket.
func (s *File) Free(addr netip.Addr, port uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked(netip.AddrPortFrom(addr, port))
}

func (s *File) freeLocked(key netip.AddrPort) {
	number, ok := s.addresses[key.Addr()]
	if !ok {
		return
	}
	delete(s.left, key)
	s.markLocked(number, key.Port(), false)
	h, ok := s.ports[key]
	if !ok {
		return
	}
	delete(s.ports, key)
	s.storeLocked(offPorts+h.slot*portSize, 0)
	s.portSlots.give(h.slot)
	if h.owner != nil {
		h.owner.ports--
		s.forgetOwnerLocked(h.owner)
	}
}

// Left are the ports that the file had when it was opened, with their owners, nil where the
// owner is not known.
func (s *File) Left() map[netip.AddrPort]*Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.left)
}

// markLocked sets or clears the bit of a port.
func (s *File) markLocked(address int, port uint16, set bool) {
	if s.passive {
		return
	}
	defer s.mend(debug.SetPanicOnFault(true))
	word, bit := s.word(offBitmaps+address*bitmapSize+int(port/64)*8), uint64(1)<<(port%64)
	if set {
		atomic.OrUint64(word, bit)
	} else {
		atomic.AndUint64(word, ^bit)
	}
}

// addressLocked is the number of an address, which gets one if there is room.
func (s *File) addressLocked(a netip.Addr) (int, bool) {
	if n, ok := s.addresses[a]; ok {
		return n, true
	}
	n, text := len(s.addresses), a.String()
	if s.lost.Load() || n == maxAddresses || len(text) >= nameSize || !s.roomLocked(offBitmaps+n*bitmapSize, bitmapSize) {
		return 0, false
	}
	s.putNameLocked(offNames+n*nameSize, text)
	s.addresses[a] = n
	return n, true
}

// readLocked takes over what a predecessor has left. owned is whether the owners are those of
// the ports; if not, their areas are emptied.
func (s *File) readLocked(owned bool) error {
	addresses, err := s.readNamesLocked()
	if err != nil {
		return err
	}
	s.stale = !owned
	if !owned && !s.passive {
		if err := s.emptyOwnersLocked(); err != nil {
			return err
		}
	}
	if owned {
		if err := s.readOwnersLocked(); err != nil {
			return err
		}
		if err := s.readPortsLocked(addresses); err != nil {
			return err
		}
		if err := s.readServicesLocked(); err != nil {
			return err
		}
	}
	if err := s.readBitsLocked(addresses, owned); err != nil {
		return err
	}
	for _, o := range maps.Clone(s.inSlots) {
		s.forgetOwnerLocked(o)
	}
	return s.readPeersLocked(maxPeers)
}

func (s *File) readNamesLocked() (list []netip.Addr, err error) {
	b, err := s.readAt(offNames, maxAddresses*nameSize)
	for i := 0; err == nil && i < maxAddresses; i++ {
		a, ok := name(b[i*nameSize:])
		if !ok {
			break
		}
		s.addresses[a] = i
		list = append(list, a)
	}
	return list, err
}

// emptyOwnersLocked makes holes of the areas with owners.
func (s *File) emptyOwnersLocked() error {
	if err := punch(s.f, offOwners, size-offOwners); err == nil {
		return nil
	}
	zeros := make([]byte, piece) // a file system without holes
	for off := offOwners; off < size; off += len(zeros) {
		if _, err := s.f.WriteAt(zeros[:min(len(zeros), size-off)], int64(off)); err != nil {
			return err
		}
	}
	return nil
}

func (s *File) readOwnersLocked() error {
	b, err := s.readAt(offOwners, maxOwners*ownerSize)
	if err != nil {
		return err
	}
	for i := range maxOwners {
		e := (*ownerEntry)(unsafe.Pointer(&b[i*ownerSize]))
		if e.used != 1 {
			continue
		}
		o := &Owner{UID: e.uid, Process: Process{e.pid, e.start, e.space}, Place: e.place, Secret: e.secret, slot: i, ended: true}
		s.inSlots[i] = o
		s.owners.skipTo(i)
	}
	return s.provideLocked(offOwners, s.owners.used*ownerSize)
}

func (s *File) readPortsLocked(addresses []netip.Addr) error {
	b, err := s.readAt(offPorts, maxPorts*portSize)
	if err != nil {
		return err
	}
	for i := range maxPorts {
		w := binary.NativeEndian.Uint64(b[i*portSize:])
		if w&portUsed == 0 {
			continue
		}
		s.portSlots.skipTo(i)
		number, o, port := int(w>>32&0xffff), s.inSlots[int(w>>16&0xffff)], uint16(w)
		if number >= len(addresses) || o == nil {
			s.portSlots.give(i)
			continue
		}
		key := netip.AddrPortFrom(addresses[number], port)
		s.ports[key] = heldPort{i, o}
		s.left[key] = o
		o.ports++
	}
	return s.provideLocked(offPorts, s.portSlots.used*portSize)
}

// readBitsLocked adds the ports that have a bit and no owner, unless the owners are right.
func (s *File) readBitsLocked(addresses []netip.Addr, owned bool) error {
	for i, a := range addresses {
		off := offBitmaps + i*bitmapSize
		b, err := s.readAt(off, bitmapSize)
		if err == nil {
			err = s.provideLocked(off, bitmapSize)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for port := range 1 << 16 {
			if b[port/8]&(1<<(port%8)) == 0 {
				continue
			}
			key := netip.AddrPortFrom(a, uint16(port))
			if _, ok := s.left[key]; !ok && owned {
				s.markLocked(i, uint16(port), false)
			} else if !ok {
				s.left[key] = nil
			}
		}
	}
	return nil
}

// storeTablesLocked stores all owners, ports and service ids.
func (s *File) storeTablesLocked() {
	for a, number := range s.addresses {
		s.putNameLocked(offNames+number*nameSize, a.String())
	}
	bits := make(map[int]*[bitmapSize / 8]uint64) // by number of the address
	for _, number := range s.addresses {
		bits[number] = new([bitmapSize / 8]uint64)
	}
	for a := range s.ports {
		bits[s.addresses[a.Addr()]][a.Port()/64] |= 1 << (a.Port() % 64)
	}
	for a := range s.left { // without an owner
		bits[s.addresses[a.Addr()]][a.Port()/64] |= 1 << (a.Port() % 64)
	}
	for number, words := range bits {
		for i, w := range words {
			if off := offBitmaps + number*bitmapSize + i*8; w != 0 || s.provided[off/piece] {
				s.storeLocked(off, w)
			}
		}
	}
	for slot := range s.owners.used {
		if o := s.inSlots[slot]; o != nil {
			s.storeOwnerLocked(o)
		} else {
			s.clearOwnerLocked(slot)
		}
	}
	words := make([]uint64, s.portSlots.used)
	for a, h := range s.ports {
		words[h.slot] = portWord(s.addresses[a.Addr()], h.owner.slot, a.Port())
	}
	for slot, w := range words {
		s.storeLocked(offPorts+slot*portSize, w)
	}
	held := make([]*HeldService, s.serviceSlots.used)
	for _, h := range s.services {
		held[h.slot] = h
	}
	for slot, h := range held {
		if h != nil {
			s.storeLocked(offServices+slot*serviceSize, h.id)
			s.storeLocked(offServices+slot*serviceSize+8, serviceUsed|uint64(h.owner.slot))
		} else {
			s.storeLocked(offServices+slot*serviceSize+8, 0)
		}
	}
}
