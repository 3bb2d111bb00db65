package rds

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"unsafe"

	"github.com/rds-go/rds/mr"
)

// exposing is a transport whose links carry operations: it has the table of the memory that
// peers reach by key, and the protection domain they reach it in. Both are nil if
// there is none after all. They end with the transport, after its links.
type exposing interface {
	Regions() *mr.Device
	Domain() *mr.Domain
}

// regions returns the table of all regions of a node, and the domain that all
// its sockets expose theirs in: every connection of the host serves all of them.
// They are the transport's; ErrNotSupported if it carries no operations.
func (n *Node) regions() (*mr.Device, *mr.Domain, error) {
	if t, ok := n.wire.(exposing); ok {
		if d := t.Regions(); d != nil {
			return d, t.Domain(), nil
		}
	}
	return nil, nil, ErrNotSupported
}

// operates tells whether the node has a transport that carries operations.
func (n *Node) operates() bool {
	_, _, err := n.regions()
	return err == nil
}

// socketRegions are the regions of one socket.
type socketRegions struct {
	mu     sync.Mutex
	device *mr.Device
	domain *mr.Domain
	owner  *mr.Owner
	keys   map[mr.Key]MRFlags // keys of the regions that have not ended
	closed bool
}

// openRegions returns who the socket's regions belong to.
func (s *nodeSocket) openRegions() (*mr.Owner, *mr.Domain, error) {
	t := &s.exposed
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, net.ErrClosed
	}
	if t.owner == nil {
		d, domain, err := s.node.regions()
		if err != nil {
			return nil, nil, err
		}
		owner := s.owner.regions(d)
		if owner == nil {
			return nil, nil, net.ErrClosed
		}
		t.device, t.domain, t.owner = d, domain, owner
		t.keys = make(map[mr.Key]MRFlags)
	}
	return t.owner, t.domain, nil
}

func (s *nodeSocket) allocMemory(n int) (*Memory, error) {
	switch {
	case s.closed.Load():
		return nil, net.ErrClosed
	case !s.node.operates():
		return nil, ErrNotSupported
	case n <= 0:
		return nil, ErrInvalid
	}
	return NewMemory(make([]byte, (n+7)&^7)[:n:n], nil), nil // made of whole words, so that words in it are aligned
}

// pageMask makes a region's offset of an address, as Linux does. The bits above are drawn.
const pageMask = 4095

// pageSource draws the pages in which regions begin, so that nobody can guess them.
type pageSource struct {
	mu  sync.Mutex // leaf
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

func (s *nodeSocket) getMR(mem []byte, dest netip.Addr, flags MRFlags) (Cookie, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	t := &s.exposed
	owner, domain, err := s.openRegions()
	if err != nil {
		return 0, err
	}
	if err := checkMRFlags(flags); err != nil {
		return 0, err
	}
	offset := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))&pageMask | s.node.pages.draw()&^pageMask
	opt := mr.Options{Domain: domain, Rights: mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic, Base: uint64(offset), Peer: dest, Once: flags&MRUseOnce != 0}
	if flags&MRReadOnly != 0 {
		opt.Rights = mr.RemoteRead
	}
	opt.Released = s.owner.lend()
	k, err := owner.Map(mem, opt)
	if err != nil {
		if opt.Released != nil {
			opt.Released()
		}
		return 0, regionError(err)
	}
	t.mu.Lock()
	if !t.closed {
		t.keys[k] = flags
		t.mu.Unlock()
		return makeCookie(uint32(k), offset), nil
	}
	t.mu.Unlock()
	_ = owner.FreeInvalidate(context.Background(), k) // fails if the owner has ended, and then the region has too
	return 0, net.ErrClosed
}

func (s *nodeSocket) freeMR(c Cookie, flags MRFlags) error {
	switch {
	case s.closed.Load():
		return net.ErrClosed
	case !s.node.operates() || flags&^mrFlags != 0:
		return ErrInvalid
	}
	t := &s.exposed
	owner, _, err := s.openRegions()
	if err != nil {
		return err
	}
	if c != 0 {
		k := mr.Key(c.Key())
		t.mu.Lock()
		had, ok := t.keys[k]
		delete(t.keys, k)
		t.mu.Unlock()
		if !ok {
			return ErrInvalid
		}
		flags |= had
		if err = owner.Free(k); err != nil {
			return regionError(err)
		}
	}
	if c == 0 || flags&MRInvalidate != 0 {
		err = owner.Barrier(context.Background())
	}
	return regionError(err)
}

// has tells whether a key is that of a region of the socket.
func (t *socketRegions) has(k mr.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.keys[k]
	return ok
}

// give has the host of a peer's use the region of a key from now on, if the region is
// the socket's.
func (t *socketRegions) give(k mr.Key, p *peer) {
	t.mu.Lock()
	device := t.device
	_, ok := t.keys[k]
	t.mu.Unlock()
	if ok {
		device.Give(k, p.as(device, p.remote))
	}
}

// once tells whether a key is that of a region of the socket for one use.
func (s *nodeSocket) once(k mr.Key) bool {
	t := &s.exposed
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys[k]&MRUseOnce != 0
}

// reader makes a reader for retire. The socket has regions.
func (s *nodeSocket) reader(name string) *mr.Reader {
	t := &s.exposed
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.device.NewReader(name)
}

// retire ends a region for one use, which a message from a peer says to have
// used (net/rds/rdma.c, rds_rdma_unuse). It returns when nothing touches the
// memory any more.
func (s *nodeSocket) retire(r *mr.Reader, k mr.Key, from netip.Addr) {
	t := &s.exposed
	t.mu.Lock()
	domain := t.domain
	t.mu.Unlock()
	if f := r.Revoke(k, domain, from); f != mr.None && f != mr.Held {
		return // the key is not of a region for this peer, or was just freed
	}
	t.mu.Lock()
	delete(t.keys, k)
	t.mu.Unlock()
	s.owner.retired(k)
}

// revoke ends all regions of the socket, for good: no operation that comes from now
// on has any of their memory.
func (s *nodeSocket) revoke() {
	t := &s.exposed
	t.mu.Lock()
	t.closed = true
	owner, keys := t.owner, t.keys
	t.keys = nil
	t.mu.Unlock()
	for k := range keys {
		_ = owner.Free(k) // a message may have just ended the region
	}
}

// unexpose follows revoke. Nothing touches the regions' memory any more when it
// returns nil.
func (s *nodeSocket) unexpose() error {
	t := &s.exposed
	t.mu.Lock()
	owner := t.owner
	t.mu.Unlock()
	if owner == nil {
		return nil
	}
	return regionError(s.owner.closeRegions(owner))
}

// regionError makes our errors of those of package mr.
func regionError(err error) error {
	var ours error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mr.ErrTooLong):
		ours = ErrMessageTooLong
	case errors.Is(err, mr.ErrExhausted):
		ours = ErrWouldBlock
	case errors.Is(err, mr.ErrStuck):
		ours = ErrBusy
	case errors.Is(err, mr.ErrEmpty), errors.Is(err, mr.ErrBase), errors.Is(err, mr.ErrKey):
		ours = ErrInvalid
	default:
		return err
	}
	return fmt.Errorf("%w: %w", ours, err)
}
