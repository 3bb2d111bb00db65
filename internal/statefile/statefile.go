package statefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/rds-go/rds/internal/lockorder"
)

// errInUse: another process has the file.
var errInUse = errors.New("statefile: another process has it")

const (
	magic      = 0x5244535354415402 // "RDSSTAT" and the version of the layout: written by whoever knows no owners
	magicOwned = magic - 1          // with ownersMark: the owners are those of the ports; without: the layout with fewer peers
	ownersMark = 0x314e574f53445200

	maxAddresses = 256
	maxPeers     = 73728
	maxPeersOne  = 16384
	maxOwners    = 8192
	maxPorts     = 126976
	maxServices  = 2048

	nameSize    = 64
	bitmapSize  = 8192
	peerSize    = 256
	ownerSize   = 128
	portSize    = 8
	serviceSize = 16

	offBoot     = 8
	bootSize    = 56
	offMark     = 64
	offNumber   = 72
	offNames    = 4096
	offBitmaps  = offNames + maxAddresses*nameSize
	offPeers    = offBitmaps + maxAddresses*bitmapSize
	offOwners   = offPeers + maxPeers*peerSize
	offPorts    = offOwners + maxOwners*ownerSize
	offServices = offPorts + maxPorts*portSize
	size        = offServices + maxServices*serviceSize
	sizeOne     = offPeers + maxPeersOne*peerSize

	piece = 16 << 10 // what is allocated at once
)

// File is an open state file. Its methods may be called from any goroutine.
type File struct {
	f      *os.File
	mem    []byte
	failed func(error)
	lost   atomic.Bool // a page of the mapping was not there: mem is memory of this process alone

	mu           lockorder.Mutex[File]
	provided     [(size + piece - 1) / piece]bool // pieces that the file system has room for
	full         bool                             // the file system had no room for a piece, and failed was told
	addresses    map[netip.Addr]int               // numbers of addresses
	ports        map[netip.AddrPort]heldPort
	owners       slots
	portSlots    slots
	services     map[uint64]*HeldService
	serviceSlots slots
	peerSlots    slots
	own          *Owner                    // of the ports of this process
	left         map[netip.AddrPort]*Owner // ports that the file had when it was opened, and that were not freed since
	inSlots      map[int]*Owner            // owners by slot
	number       uint64                    // highest sequence number that was reserved
	passive      bool                      // another process may go on with the file: nothing is stored
	stale        bool                      // the owners in the file are not those of the ports
	peers        []*Peer                   // what the file said when it was opened
}

// Open maps the file at path, which it makes if there is none. Contents of another boot, or
// of another layout, are discarded. failed is told, in a goroutine of its own, when the file
// system is full later on, or somebody has cut the file.
func Open(path string, failed func(error)) (*File, error) {
	boot := bootID()
	if boot == "" {
		return nil, errors.ErrUnsupported
	}
	f, mem, err := open(path)
	if err != nil {
		return nil, err
	}
	s := newFile(f, mem, failed)
	if err := s.begin(boot); err != nil {
		s.Close()
		return nil, fmt.Errorf("statefile: %w", err)
	}
	return s, nil
}

func newFile(f *os.File, mem []byte, failed func(error)) *File {
	return &File{
		f: f, mem: mem, failed: failed, addresses: make(map[netip.Addr]int), ports: make(map[netip.AddrPort]heldPort), services: make(map[uint64]*HeldService),
		owners: slots{most: maxOwners}, portSlots: slots{most: maxPorts}, serviceSlots: slots{most: maxServices}, peerSlots: slots{most: maxPeers}, left: make(map[netip.AddrPort]*Owner), inSlots: make(map[int]*Owner),
	}
}

// File is the open file, to be passed to another process: the lock goes with the
// descriptor, and ends when no process has one. Close would end the lock for all of them.
// It is nil when the file was lost.
func (s *File) File() *os.File {
	if s.lost.Load() {
		return nil
	}
	return s.f
}

// Forego has a file be one that a daemon without owners takes over: it does not keep them. Who has
// the file goes on with Keep if that daemon does not.
func Forego(f *os.File) error {
	_, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, magic), 0)
	return err
}

// Keep goes on with a file that was passed to another process in vain.
func (s *File) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeLocked(0, magicOwned)
}

// Adopt maps a file that another process has passed, and owns f. Nothing is stored in the file
// before Begin: until then the other process may go on with it.
func Adopt(f *os.File, failed func(error)) (*File, error) {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("statefile: %w", errLost)
	}
	var mem []byte
	if err == nil {
		mem, err = mapFile(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s := newFile(f, mem, failed)
	s.passive = true
	header, err := s.readAt(0, offNames)
	if err == nil && !s.current(header, bootID()) {
		err = errors.New("the file is of another layout, or boot")
	}
	if err == nil {
		err = s.begin(bootID())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("statefile: %w", err)
	}
	return s, nil
}

// Begin has the file say what this process knows, which it has adopted the file from another one
// for. A process that is killed in the middle leaves a file without owners.
func (s *File) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.passive {
		return
	}
	s.passive = false
	s.storeLocked(0, magic)
	if s.stale && s.emptyOwnersLocked() != nil {
		return // it stays a file without owners
	}
	s.storeTablesLocked()
	s.storeLocked(offNumber, s.number)
	s.storeLocked(offMark, ownersMark)
	s.storeLocked(0, magicOwned)
}

// current tells whether a header is that of a file of this boot.
func (s *File) current(header []byte, boot string) bool {
	m := binary.NativeEndian.Uint64(header)
	return (m == magic || m == magicOwned) && strings.TrimRight(string(header[offBoot:offBoot+bootSize]), "\x00") == boot
}

// begin reads what a predecessor has left, or empties the file.
func (s *File) begin(boot string) (err error) {
	defer func() {
		if s.lost.Load() && err == nil {
			err = errLost
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	header, err := s.readAt(0, offNames)
	if err != nil {
		return err
	}
	if !s.current(header, boot) {
		return s.renewLocked(boot)
	}
	s.number = binary.NativeEndian.Uint64(header[offNumber:])
	owned := binary.NativeEndian.Uint64(header) == magicOwned && binary.NativeEndian.Uint64(header[offMark:]) == ownersMark
	if err := s.provideLocked(0, offBitmaps); err != nil {
		return err
	}
	if err := s.readLocked(owned); err != nil {
		return err
	}
	s.storeLocked(offMark, ownersMark)
	s.storeLocked(0, magicOwned)
	return nil
}

// renewLocked empties the file. The magic is written last: a file without it is empty.
func (s *File) renewLocked(boot string) error {
	if err := errors.Join(s.f.Truncate(0), s.f.Truncate(size)); err != nil {
		return err
	}
	if err := s.provideLocked(0, offBitmaps); err != nil {
		return err
	}
	s.copyLocked(offBoot, []byte(boot))
	s.storeLocked(offMark, ownersMark)
	s.storeLocked(0, magicOwned)
	return nil
}

// readAt reads from the file, not from the mapping: pages that were never used stay holes.
func (s *File) readAt(off, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := s.f.ReadAt(b, int64(off))
	return b, err
}

// provideLocked has the file system allocate the pieces that n bytes at off are in.
func (s *File) provideLocked(off, n int) error {
	for i := off / piece; n > 0 && i*piece < off+n; i++ {
		if s.provided[i] || s.lost.Load() {
			continue
		}
		if err := allocate(s.f, i*piece, min(piece, size-i*piece)); err != nil {
			return err
		}
		s.provided[i] = true
	}
	return nil
}

// roomLocked is provideLocked for what is new. The first time that there is no room it is told.
func (s *File) roomLocked(off, n int) bool {
	err := s.provideLocked(off, n)
	if err != nil && !s.full {
		s.full = true
		go s.failed(fmt.Errorf("statefile: no room for what is new: %w", err))
	}
	return err == nil
}

// Number is the highest sequence number that was reserved.
func (s *File) Number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number
}

// Reserve notes that numbers up to n may have been given to messages.
func (s *File) Reserve(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number = n
	s.storeLocked(offNumber, n)
}

// Close gives the file up; what it says stays. It stays mapped: a report may look at it.
func (s *File) Close() {
	unlock(s.f)
	s.f.Close()
}

func (s *File) word(off int) *uint64 { return (*uint64)(unsafe.Pointer(&s.mem[off])) }

// slots are the places of one table of the file, of which those behind the first used were
// never used.
type slots struct {
	most, used int
	free       []int
}

// take is a free slot, -1 if there is none. room makes room for one that was never used.
func (t *slots) take(room func(slot int) bool) int {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		return slot
	}
	if t.used == t.most || !room(t.used) {
		return -1
	}
	t.used++
	return t.used - 1
}

// skipTo has the slots up to one that is in use be used; those before are free.
func (t *slots) skipTo(slot int) {
	for ; t.used < slot; t.used++ {
		t.give(t.used)
	}
	t.used = slot + 1
}

func (t *slots) give(slot int) { t.free = append(t.free, slot) }

// putName writes the length last: a name without one is none.
func (s *File) putNameLocked(off int, text string) {
	s.copyLocked(off+1, []byte(text))
	s.copyLocked(off, []byte{byte(len(text))})
}

func name(b []byte) (netip.Addr, bool) {
	n := int(b[0])
	if n == 0 || n >= nameSize {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(string(b[1 : 1+n]))
	return a, err == nil
}
