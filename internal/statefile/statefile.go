package statefile

import (
	"errors"
	"math/bits"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/rds-go/rds/internal/lockorder"
)

// errInUse: another process has the file.
var errInUse = errors.New("statefile: another process has it")

// Paths is the number of sequence numbers of a peer.
const Paths = 8

const (
	magic    = 0x5244535354415402 // "RDSSTAT" and the version of the layout
	magicOne = magic - 1          // the layout with fewer peers

	maxAddresses = 256
	maxPeers     = 81920
	maxPeersOne  = 16384

	nameSize   = 64
	bitmapSize = 8192
	peerSize   = 256

	offBoot    = 8
	bootSize   = 56
	offNames   = 4096
	offBitmaps = offNames + maxAddresses*nameSize
	offPeers   = offBitmaps + maxAddresses*bitmapSize
	size       = offPeers + maxPeers*peerSize
	sizeOne    = offPeers + maxPeersOne*peerSize

	// Offsets of names in a peer's entry. What is before and behind them is in Peer.
	offLocal  = 72
	offRemote = 136
)

// File is an open state file. Its methods may be called from any goroutine; what
// they return stays valid after Close, too, though it is another process's by then.
type File struct {
	f   *os.File
	mem []byte

	mu        lockorder.Mutex[File]
	addresses map[netip.Addr]*Address
	peers     map[*Peer][2]netip.Addr // local and remote address of used entries
	slots     int                     // number of used slots for addresses
	free      []*Peer                 // entries that were used and are free
	peerSlots int                     // number of entries that are, or were, used
}

// Address is the ports of one address.
type Address struct{ words []uint64 }

// Peer is what was received from one generation of one remote address at one local
// address. It is an entry of the file, or stands for itself.
type Peer struct {
	used       atomic.Uint32
	Generation atomic.Uint32        // the peer's generation; 0: not stated
	Next       [Paths]atomic.Uint64 // one more than the last sequence number taken on each path; 0: none was

	_ [offTaken - offLocal]byte // names

	Taken atomic.Uint64 // number of messages taken for sockets
	Used  atomic.Int64  // time of the last use, in Unix nanoseconds
}

// offTaken is the offset of Taken in a peer's entry.
const offTaken = 200

// Open maps the file at path, which it makes if there is none. Contents of another
// boot, or of another layout, are discarded.
func Open(path string) (*File, error) {
	boot := bootID()
	if boot == "" {
		return nil, errors.ErrUnsupported
	}
	f, mem, err := open(path)
	if err != nil {
		return nil, err
	}
	s := newFile(f, mem)
	if m := s.magic().Load(); (m == magic || m == magicOne) && s.boot() == boot {
		s.read()
		s.magic().Store(magic)
		return s, nil
	}
	if err := s.renew(boot); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newFile(f *os.File, mem []byte) *File {
	return &File{f: f, mem: mem, addresses: make(map[netip.Addr]*Address), peers: make(map[*Peer][2]netip.Addr)}
}

// File is the open file, to be passed to another process: the lock goes with the
// descriptor, and ends when no process has one. Close would end the lock for all of them.
func (s *File) File() *os.File { return s.f }

// Adopt maps a file that another process has passed, and owns f.
func Adopt(f *os.File) (*File, error) {
	mem, err := mapFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	s := newFile(f, mem)
	if s.magic().Load() != magic || s.boot() != bootID() {
		f.Close()
		return nil, errors.New("statefile: the file is of another layout, or boot")
	}
	s.read()
	return s, nil
}

// renew empties the file. The magic is written last: a file without it is empty.
func (s *File) renew(boot string) error {
	if err := s.f.Truncate(0); err != nil {
		return err
	}
	if err := s.f.Truncate(size); err != nil {
		return err
	}
	if err := s.provide(0, offBitmaps); err != nil {
		return err
	}
	copy(s.mem[offBoot:offBoot+bootSize], boot)
	s.magic().Store(magic)
	return nil
}

// provide has the system allocate pages: in a file system that is full a store to a
// page that is not there would end the process.
func (s *File) provide(off, n int) error {
	_, err := s.f.WriteAt(make([]byte, n), int64(off))
	return err
}

func (s *File) boot() string {
	return strings.TrimRight(string(s.mem[offBoot:offBoot+bootSize]), "\x00")
}

// read takes over what a predecessor has left.
func (s *File) read() {
	for i := range maxAddresses {
		a, ok := name(s.mem[offNames+i*nameSize:])
		if !ok {
			break
		}
		s.addresses[a] = s.address(i)
		s.slots++
	}
	for i := range maxPeers {
		at := offPeers + i*peerSize
		p := s.peer(at)
		used := p.used.Load() == 1
		if !used && s.mem[at+offLocal] == 0 {
			break // never used
		}
		s.peerSlots++
		local, ok := name(s.mem[at+offLocal:])
		remote, ok2 := name(s.mem[at+offRemote:])
		if used && ok && ok2 && p.received() {
			s.peers[p] = [2]netip.Addr{local, remote}
		} else {
			s.releaseLocked(p)
		}
	}
}

// Ports returns the ports that have a bit, by address.
func (s *File) Ports() map[netip.Addr][]uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[netip.Addr][]uint16)
	for addr, a := range s.addresses {
		for w := range a.words {
			for v := atomic.LoadUint64(&a.words[w]); v != 0; v &= v - 1 {
				out[addr] = append(out[addr], uint16(w*64+bits.TrailingZeros64(v)))
			}
		}
	}
	return out
}

// Address is the ports of a, nil if the file has no room for it.
func (s *File) Address(a netip.Addr) *Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.addresses[a]; x != nil {
		return x
	}
	text := a.String()
	if s.slots == maxAddresses || len(text) >= nameSize || s.provide(offBitmaps+s.slots*bitmapSize, bitmapSize) != nil {
		return nil
	}
	x := s.address(s.slots)
	putName(s.mem[offNames+s.slots*nameSize:], text)
	s.slots++
	s.addresses[a] = x
	return x
}

func (s *File) address(i int) *Address {
	return &Address{unsafe.Slice((*uint64)(unsafe.Pointer(&s.mem[offBitmaps+i*bitmapSize])), bitmapSize/8)}
}

// Set notes that a port has a socket.
func (a *Address) Set(port uint16) { atomic.OrUint64(&a.words[port/64], 1<<(port%64)) }

// Clear notes that it has none.
func (a *Address) Clear(port uint16) { atomic.AndUint64(&a.words[port/64], ^uint64(1<<(port%64))) }

// Peers calls f for each entry with its local and remote address.
func (s *File) Peers(f func(local, remote netip.Addr, p *Peer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, names := range s.peers {
		f(names[0], names[1], p)
	}
}

// Add makes an entry for a generation of a peer, nil if there is no room for it. Whoever
// opens the file after a crash finds the entry with next and taken, of a path, or not at all.
func (s *File) Add(local, remote netip.Addr, generation uint32, path int, next, taken uint64) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, r := local.String(), remote.String()
	if len(l) >= nameSize || len(r) >= nameSize {
		return nil
	}
	var p *Peer
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	} else {
		at := offPeers + s.peerSlots*peerSize
		if s.peerSlots == maxPeers || s.provide(at, peerSize) != nil {
			return nil
		}
		p = s.peer(at)
		s.peerSlots++
	}
	entry := unsafe.Slice((*byte)(unsafe.Pointer(p)), peerSize)
	putName(entry[offLocal:], l)
	putName(entry[offRemote:], r)
	p.Generation.Store(generation)
	p.Next[path].Store(next)
	p.Taken.Store(taken)
	p.used.Store(1)
	s.peers[p] = [2]netip.Addr{local, remote}
	return p
}

// Remove frees an entry, which nobody may use any more.
func (s *File) Remove(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	s.releaseLocked(p)
}

func (s *File) releaseLocked(p *Peer) {
	p.used.Store(0)
	for i := range p.Next {
		p.Next[i].Store(0)
	}
	p.Taken.Store(0)
	p.Used.Store(0)
	s.free = append(s.free, p)
}

// received tells whether something was taken.
func (p *Peer) received() bool {
	for i := range p.Next {
		if p.Next[i].Load() > 0 {
			return true
		}
	}
	return false
}

func (s *File) peer(at int) *Peer { return (*Peer)(unsafe.Pointer(&s.mem[at])) }

// Close gives the file up; what it says stays. It stays mapped: reports may look at it.
func (s *File) Close() {
	unlock(s.f)
	s.f.Close()
}

func (s *File) magic() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&s.mem[0])) }

// putName writes the length last: a name without one is none.
func putName(b []byte, text string) {
	copy(b[1:nameSize], text)
	b[0] = byte(len(text))
}

func name(b []byte) (netip.Addr, bool) {
	n := int(b[0])
	if n == 0 || n >= nameSize {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(string(b[1 : 1+n]))
	return a, err == nil
}
