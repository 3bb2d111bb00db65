package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"unsafe"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
)

// Regions is the table of all regions of a node, nil if no transport carries operations.
func (n *Node) Regions() *mr.Device {
	if n.domain == nil {
		return nil
	}
	return n.domain.Device()
}

// memoryAt finds protection domains by the ports of a local address; nil: the node does not have
// the address.
func (n *Node) memoryAt(local netip.Addr) func(port uint16) *mr.Domain {
	if la := n.Local(local); la != nil {
		return la.protection
	}
	return nil
}

// protection is the protection domain of the program that has a port, nil if nobody does:
// operations that come for the port reach its regions and no others.
func (l *Local) protection(port uint16) *mr.Domain {
	if s := l.lookup(port); s != nil {
		return s.protection()
	}
	return nil
}

// protection is the protection domain of the socket's regions.
func (s *Socket) protection() *mr.Domain { return cmp.Or(s.Owner.Protection(), s.Node.domain) }

// Operates tells whether the node has a transport that carries operations.
func (n *Node) Operates() bool {
	return n.domain != nil
}

// socketRegions are the regions of one socket.
type socketRegions struct {
	Mu     lockorder.Mutex[socketRegions]
	domain *mr.Domain
	Owner  *mr.Owner
	Keys   map[mr.Key]datagram.MRFlags // keys of the regions that have not ended
	closed bool
}

// OpenRegions returns who the socket's regions belong to.
func (s *Socket) OpenRegions() (*mr.Owner, *mr.Domain, error) {
	t := &s.Exposed
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.closed {
		return nil, nil, net.ErrClosed
	}
	if t.Owner == nil {
		domain := s.protection()
		if domain == nil {
			return nil, nil, datagram.ErrNotSupported
		}
		owner := s.Owner.Regions(domain.Device())
		if owner == nil {
			return nil, nil, net.ErrClosed
		}
		t.domain, t.Owner = domain, owner
		t.Keys = make(map[mr.Key]datagram.MRFlags)
	}
	return t.Owner, t.domain, nil
}

func (s *Socket) AllocMemory(n int) (*datagram.Memory, error) {
	switch {
	case s.Closed.Load():
		return nil, net.ErrClosed
	case !s.Node.Operates():
		return nil, datagram.ErrNotSupported
	case n <= 0:
		return nil, datagram.ErrInvalid
	}
	return datagram.NewMemory(make([]byte, (n+7)&^7)[:n:n], nil), nil // made of whole words, so that words in it are aligned
}

// pageMask makes a region's offset of an address, as Linux does. The bits above are drawn.
const pageMask = 4095

// pageSource draws the pages in which regions begin, so that nobody can guess them.
type pageSource struct {
	mu  lockorder.Mutex[pageSource] // leaf
	rnd *mrand.ChaCha8
}

func newPageSource() *pageSource {
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	return &pageSource{rnd: mrand.NewChaCha8(seed)}
}

func (p *pageSource) draw() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint32(p.rnd.Uint64())
}

func (s *Socket) GetMR(mem []byte, dest netip.Addr, flags datagram.MRFlags) (datagram.Cookie, error) {
	return s.Expose(mem, dest, flags, true)
}

func (s *Socket) GetMRBatch(cookies []datagram.Cookie, mem [][]byte, flags datagram.MRFlags) (n int, err error) {
	for n < len(mem) && err == nil {
		if cookies[n], err = s.Expose(mem[n], netip.Addr{}, flags, true); err == nil {
			n++
		}
	}
	return n, err
}

// Expose is GetMR. Unless it waits, it fails at once where ended regions are in the way of
// another one.
func (s *Socket) Expose(mem []byte, dest netip.Addr, flags datagram.MRFlags, waits bool) (datagram.Cookie, error) {
	if s.Closed.Load() {
		return 0, net.ErrClosed
	}
	t := &s.Exposed
	owner, domain, err := s.OpenRegions()
	if err != nil {
		return 0, err
	}
	if err := socket.CheckMRFlags(flags); err != nil {
		return 0, err
	}
	offset := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))&pageMask | s.Node.pages.draw()&^pageMask
	opt := mr.Options{Domain: domain, Rights: mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic, Base: uint64(offset), Peer: dest, Once: flags&datagram.MRUseOnce != 0, NoWait: !waits}
	if flags&datagram.MRReadOnly != 0 {
		opt.Rights = mr.RemoteRead
	}
	once, lent := (*OnceRegion)(nil), s.Owner.Lend()
	if opt.Released = lent; opt.Once {
		once = &OnceRegion{Socket: s, Lent: lent}
		opt.Released = once.Released
	}
	k, err := owner.Map(mem, opt)
	if err != nil {
		if lent != nil {
			lent()
		}
		return 0, regionError(err)
	}
	t.Mu.Lock()
	if !t.closed {
		if once == nil || once.nameLocked(k) {
			t.Keys[k] = flags
		}
		t.Mu.Unlock()
		return datagram.MakeCookie(uint32(k), offset), nil
	}
	t.Mu.Unlock()
	_ = owner.FreeInvalidate(context.Background(), k) // fails if the owner has ended, and then the region has too
	return 0, net.ErrClosed
}

// OnceRegion is a use-once region of a socket. The socket forgets the key when the memory
// is released: the operation that uses the region may have no message to tell of it.
type OnceRegion struct {
	Socket *Socket
	Lent   func() // what the socket's owner has with the region; may be nil

	// Guarded by the lock of Socket.Exposed.
	Key   mr.Key // 0: not known yet
	ended bool   // the memory is released
}

// nameLocked tells the key, and whether the region goes on.
func (o *OnceRegion) nameLocked(k mr.Key) bool {
	o.Key = k
	return !o.ended
}

// Released is for mr.Options.
func (o *OnceRegion) Released() {
	if o.Lent != nil {
		o.Lent()
	}
	t := &o.Socket.Exposed
	t.Mu.Lock()
	o.ended = true
	k := o.Key
	t.Mu.Unlock()
	o.Socket.forget(k)
}

func (s *Socket) FreeMR(c datagram.Cookie, flags datagram.MRFlags) error {
	if err := s.mayFree(flags); err != nil {
		return err
	}
	if c != 0 {
		had, err := s.Conceal(c)
		if err != nil {
			return err
		}
		flags |= had
	}
	if c == 0 || flags&datagram.MRInvalidate != 0 {
		return s.freed()
	}
	return nil
}

func (s *Socket) FreeMRBatch(cookies []datagram.Cookie, flags datagram.MRFlags) (n int, err error) {
	if err := s.mayFree(flags); err != nil {
		return 0, err
	}
	for ; n < len(cookies); n++ {
		had, err := s.Conceal(cookies[n])
		if err != nil {
			return n, err
		}
		flags |= had
	}
	if flags&datagram.MRInvalidate != 0 {
		err = s.freed()
	}
	return n, err
}

// mayFree checks a call that ends regions.
func (s *Socket) mayFree(flags datagram.MRFlags) error {
	switch {
	case s.Closed.Load():
		return net.ErrClosed
	case !s.Node.Operates() || flags&^socket.MrFlags != 0:
		return datagram.ErrInvalid
	}
	_, _, err := s.OpenRegions()
	return err
}

// Conceal ends a region without waiting, and returns the flags that GetMR was given.
func (s *Socket) Conceal(c datagram.Cookie) (datagram.MRFlags, error) {
	k, t := mr.Key(c.Key()), &s.Exposed
	t.Mu.Lock()
	owner := t.Owner
	had, ok := t.Keys[k]
	delete(t.Keys, k)
	t.Mu.Unlock()
	if !ok {
		return 0, datagram.ErrInvalid
	}
	return had, regionError(owner.Free(k))
}

// freed waits until nothing touches the memory of regions that were ended before, also by
// applications.
func (s *Socket) freed() error {
	t := &s.Exposed
	t.Mu.Lock()
	owner := t.Owner
	t.Mu.Unlock()
	s.Node.Server().TakeFrees()
	return regionError(owner.Barrier(context.Background()))
}

// has tells whether a key is that of a region of the socket.
func (t *socketRegions) has(k mr.Key) bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	_, ok := t.Keys[k]
	return ok
}

// give has the host of a peer's use the region of a key from now on, if the region is
// the socket's.
func (t *socketRegions) give(k mr.Key, p *Peer) {
	t.Mu.Lock()
	domain := t.domain
	_, ok := t.Keys[k]
	t.Mu.Unlock()
	if ok {
		domain.Device().Give(k, p.as(domain.Device(), p.Remote))
	}
}

// once tells whether a key is that of a region of the socket for one use.
func (s *Socket) once(k mr.Key) bool {
	t := &s.Exposed
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Keys[k]&datagram.MRUseOnce != 0
}

// retire follows a message from a peer that says to have used a use-once region. The key is
// dead at return if an operation of the peer has used the region, or is under way.
func (s *Socket) retire(k mr.Key, from netip.Addr) {
	t := &s.Exposed
	t.Mu.Lock()
	owner, domain := t.Owner, t.domain
	t.Mu.Unlock()
	domain.Device().Retire(k, from)
	if !owner.Owns(k) {
		s.forget(k)
	}
}

// forget notes that a use-once region has ended.
func (s *Socket) forget(k mr.Key) {
	t := &s.Exposed
	t.Mu.Lock()
	_, had := t.Keys[k]
	delete(t.Keys, k)
	t.Mu.Unlock()
	if had {
		s.Owner.Retired(k)
	}
}

// revoke ends all regions of the socket, for good: no operation that comes from now
// on has any of their memory.
func (s *Socket) revoke() {
	t := &s.Exposed
	t.Mu.Lock()
	t.closed = true
	owner, keys := t.Owner, t.Keys
	t.Keys = nil
	t.Mu.Unlock()
	for k := range keys {
		_ = owner.Free(k) // a message may have just ended the region
	}
}

// unexpose follows revoke. Nothing touches the regions' memory any more when it
// returns nil.
func (s *Socket) unexpose() error {
	t := &s.Exposed
	t.Mu.Lock()
	owner := t.Owner
	t.Mu.Unlock()
	if owner == nil {
		return nil
	}
	return regionError(s.Owner.CloseRegions(owner))
}

// regionError makes our errors of those of package mr.
func regionError(err error) error {
	var ours error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mr.ErrTooLong):
		ours = datagram.ErrMessageTooLong
	case errors.Is(err, mr.ErrExhausted):
		ours = datagram.ErrWouldBlock
	case errors.Is(err, mr.ErrStuck):
		ours = datagram.ErrBusy
	case errors.Is(err, mr.ErrEmpty), errors.Is(err, mr.ErrBase), errors.Is(err, mr.ErrKey):
		ours = datagram.ErrInvalid
	default:
		return err
	}
	return fmt.Errorf("%w: %w", ours, err)
}
