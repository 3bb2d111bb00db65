package objects

import (
	"context"
	"fmt"
	"os"
)

// inode is what a domain goes by: never a name.
type inode struct{ dev, ino uint64 }

// xrcd is a domain. It lives while something is counted in refs.
type xrcd struct {
	dev   *Device
	tag   uint64 // tells it from all other domains the device ever had
	key   inode
	file  *os.File // keeps the inode from being used again; nil if private
	share *share   // whose share the file counts against

	refs int // handles, XRC shared receive queues, targets; under Device.mu
}

// Domain is a session's handle of an XRC domain. Sessions that open the same
// file have handles of the same domain.
type Domain struct {
	session *Session
	xrcd    *xrcd
	writes  bool // targets may be modified through the handle

	// Under Device.mu.
	refs   int // queues, registrations and services made through the handle
	closed bool
}

// OpenDomain opens the domain of a file or makes one, as ibv_open_xrcd does. The descriptor
// stays the caller's, who may close it after the call. The flags are os.O_CREATE and
// os.O_EXCL, as of open(2); others mean nothing:
//
//	fd       flags              domain exists      does not exist
//	no file  any                ErrFile            ErrFile
//	-1       O_CREATE           -                  a private domain
//	-1       else               -                  ErrAttribute
//	a file   0                  opened             ErrNoDomain
//	a file   O_CREATE           opened             made
//	a file   O_EXCL, with or    ErrExists          made with O_CREATE,
//	         without O_CREATE                      else ErrNoDomain
//
// Whoever can read the file has access, by a descriptor that is open for reading. Targets of the domain
// are modified through a handle of a descriptor that is open for reading and writing; so they are in a
// private domain. ErrAccess where the descriptor is open for less: one of O_PATH is good for nothing.
// The domain keeps the file's inode, so the file may be closed and removed.
func (s *Session) OpenDomain(fd, flags int) (*Domain, error) {
	if fd == -1 && flags&os.O_CREATE == 0 {
		return nil, ErrAttribute
	}
	var file *os.File
	var key inode
	writes := true
	if fd != -1 {
		var err error
		if file, key, writes, err = pin(fd); err != nil {
			return nil, err
		}
	}
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	h, err := s.openLocked(file, key, flags, writes)
	if file != nil && (err != nil || h.xrcd.file != file) {
		d.later(func() { _ = file.Close() })
	}
	return h, err
}

func (s *Session) openLocked(file *os.File, key inode, flags int, writes bool) (*Domain, error) {
	d := s.dev
	if err := s.liveLocked(); err != nil {
		return nil, err
	}
	var x *xrcd
	if file != nil {
		x = d.domains[key]
	}
	switch {
	case x != nil && flags&os.O_EXCL != 0:
		return nil, ErrExists
	case x == nil && flags&os.O_CREATE == 0:
		return nil, ErrNoDomain
	case s.used.Domains >= s.limits.Domains:
		return nil, ErrLimit
	case x == nil:
		if file != nil {
			if err := s.mayLocked(s.share.files, d.config.Shares.Files); err != nil {
				return nil, err
			}
		}
		d.domainTag++
		x = &xrcd{dev: d, tag: d.domainTag, key: key, file: file, share: s.share}
		d.xrcds[x] = struct{}{}
		if file != nil {
			d.domains[key] = x
			s.share.files++
		}
	}
	return s.handleLocked(x, writes), nil
}

func (s *Session) handleLocked(x *xrcd, writes bool) *Domain {
	x.refs++
	h := &Domain{session: s, xrcd: x, writes: writes}
	s.used.Domains++
	s.addLocked(h)
	return h
}

// ShareDomain opens a handle of the domain that another session has a handle of. It is for
// who has both sessions, as a daemon has those of its applications.
func (s *Session) ShareDomain(of *Domain) (*Domain, error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case of == nil || of.session.dev != s.dev || of.closed:
		return nil, ErrForeign
	case s.used.Domains >= s.limits.Domains:
		return nil, ErrLimit
	}
	return s.handleLocked(of.xrcd, of.writes), nil
}

// dropLocked takes one reference away; with the last the domain is gone, and a
// domain made of the same file later is another one.
func (x *xrcd) dropLocked() {
	if x.refs--; x.refs > 0 {
		return
	}
	d := x.dev
	delete(d.xrcds, x)
	if x.file != nil {
		delete(d.domains, x.key)
		x.share.files--
		x.share.settleLocked()
		d.later(func() { _ = x.file.Close() })
	}
}

// Tag tells the domain from all others that the device ever had. It is part of
// the answer to a service query and means nothing to anyone but this device.
func (h *Domain) Tag() uint64 { return h.xrcd.tag }

// Close closes the handle: ErrBusy while queues, registrations or services made
// through it exist, ErrForeign if it is closed already. The domain itself goes
// with the last handle.
func (h *Domain) Close() error { return h.end(context.Background()) }

func (h *Domain) end(context.Context) error {
	d := h.session.dev
	d.mu.Lock()
	defer d.unlock()
	switch {
	case h.closed:
		return ErrForeign
	case h.refs > 0:
		return ErrBusy
	}
	h.abandonLocked()
	return nil
}

func (h *Domain) abandonLocked() {
	h.closed = true
	h.session.used.Domains--
	delete(h.session.objects, h)
	h.xrcd.dropLocked()
}

func (h *Domain) String() string { return fmt.Sprintf("domain %d", h.xrcd.tag) }

// domainLocked checks a handle that the session was called with.
func (s *Session) domainLocked(h *Domain) (*xrcd, error) {
	if err := s.liveLocked(); err != nil {
		return nil, err
	}
	if h == nil || h.session != s || h.closed {
		return nil, ErrForeign
	}
	return h.xrcd, nil
}
