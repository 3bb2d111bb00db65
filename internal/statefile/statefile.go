package statefile

import (
	"errors"
	"math/bits"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ErrInUse: another process has the file.
var ErrInUse = errors.New("statefile: another process has it")

// Paths is the number of sequence numbers of a peer.
const Paths = 8

const (
	magic = 0x5244535354415401 // "RDSSTAT" and the version of the layout

	maxAddresses = 256
	maxPeers     = 16384

	nameSize   = 64
	bitmapSize = 8192
	peerSize   = 256

	offBoot    = 8
	bootSize   = 56
	offNames   = 4096
	offBitmaps = offNames + maxAddresses*nameSize
	offPeers   = offBitmaps + maxAddresses*bitmapSize
	size       = offPeers + maxPeers*peerSize

	// Offsets in a peer's entry.
	offUsed       = 0
	offGeneration = 4
	offNext       = 8
	offLocal      = 72
	offRemote     = 136
)

// File is an open state file. Its methods may be called from any goroutine; what
// they return stays valid after Close, too, though it is another process's by then.
type File struct {
	f   *os.File
	mem []byte

	mu        sync.Mutex
	addresses map[netip.Addr]*Address
	peers     map[[2]netip.Addr]*Peer
	slots     int // number of used slots for addresses
	peerSlots int // number of used slots for peers
}

// Address is the ports of one address.
type Address struct{ words []uint64 }

// Peer is what was received from one remote address at one local address.
type Peer struct {
	Generation *atomic.Uint32        // the peer's generation; 0: not stated
	Next       [Paths]*atomic.Uint64 // one more than the last sequence number taken on each path
}

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
	if s.word(0).Load() == magic && s.boot() == boot {
		s.read()
		return s, nil
	}
	if err := s.renew(boot); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newFile(f *os.File, mem []byte) *File {
	return &File{f: f, mem: mem, addresses: make(map[netip.Addr]*Address), peers: make(map[[2]netip.Addr]*Peer)}
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
	if s.word(0).Load() != magic || s.boot() != bootID() {
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
	s.word(0).Store(magic)
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
		if s.half(at+offUsed).Load() != 1 {
			break
		}
		s.peerSlots++
		local, ok := name(s.mem[at+offLocal:])
		remote, ok2 := name(s.mem[at+offRemote:])
		if ok && ok2 {
			s.peers[[2]netip.Addr{local, remote}] = s.peer(at)
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

// Peer is what the file has of a peer, nil if there is no room for it.
func (s *File) Peer(local, remote netip.Addr) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]netip.Addr{local, remote}
	if p := s.peers[key]; p != nil {
		return p
	}
	l, r := local.String(), remote.String()
	at := offPeers + s.peerSlots*peerSize
	if s.peerSlots == maxPeers || len(l) >= nameSize || len(r) >= nameSize || s.provide(at, peerSize) != nil {
		return nil
	}
	putName(s.mem[at+offLocal:], l)
	putName(s.mem[at+offRemote:], r)
	s.half(at + offUsed).Store(1)
	s.peerSlots++
	p := s.peer(at)
	s.peers[key] = p
	return p
}

func (s *File) peer(at int) *Peer {
	p := &Peer{Generation: s.half(at + offGeneration)}
	for i := range p.Next {
		p.Next[i] = s.word(at + offNext + 8*i)
	}
	return p
}

// Close gives the file up; what it says stays. It stays mapped: reports may look at it.
func (s *File) Close() {
	unlock(s.f)
	s.f.Close()
}

func (s *File) word(off int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&s.mem[off])) }
func (s *File) half(off int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&s.mem[off])) }

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
