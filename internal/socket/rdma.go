package socket

import (
	"net/netip"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/rds/datagram"
)

// AllocMemory is Socket.AllocMemory of package rds.
func (s *Socket) AllocMemory(n int) (*datagram.Memory, error) {
	m, err := s.Endpoint.AllocMemory(n)
	if err != nil {
		return nil, s.fail("alloc", netip.AddrPort{}, err)
	}
	return m, nil
}

// GetMR is Socket.GetMR of package rds.
func (s *Socket) GetMR(mem []byte, flags datagram.MRFlags) (datagram.Cookie, error) {
	c, err := s.Endpoint.GetMR(mem, netip.Addr{}, flags)
	return c, s.fail("map", netip.AddrPort{}, err)
}

// GetMRForDest is Socket.GetMRForDest of package rds.
func (s *Socket) GetMRForDest(dest netip.AddrPort, mem []byte, flags datagram.MRFlags) (datagram.Cookie, error) {
	dest = address.Unmap(dest)
	if !address.Unicast(dest.Addr()) {
		return 0, s.fail("map", dest, datagram.ErrInvalid)
	}
	c, err := s.Endpoint.GetMR(mem, dest.Addr(), flags)
	return c, s.fail("map", dest, err)
}

// FreeMR is Socket.FreeMR of package rds.
func (s *Socket) FreeMR(c datagram.Cookie, flags datagram.MRFlags) error {
	return s.fail("unmap", netip.AddrPort{}, s.Endpoint.FreeMR(c, flags))
}

// GetMRBatch is Socket.GetMRBatch of package rds.
func (s *Socket) GetMRBatch(cookies []datagram.Cookie, mem [][]byte, flags datagram.MRFlags) (int, error) {
	if len(cookies) < len(mem) {
		return 0, s.fail("map", netip.AddrPort{}, datagram.ErrInvalid)
	}
	n, err := s.Endpoint.GetMRBatch(cookies[:len(mem)], mem, flags)
	return n, s.fail("map", netip.AddrPort{}, err)
}

// FreeMRBatch is Socket.FreeMRBatch of package rds.
func (s *Socket) FreeMRBatch(cookies []datagram.Cookie, flags datagram.MRFlags) (int, error) {
	n, err := s.Endpoint.FreeMRBatch(cookies, flags)
	return n, s.fail("unmap", netip.AddrPort{}, err)
}

// NoRDMA is the part of an endpoint that carries no operations.
type NoRDMA struct{}

func (NoRDMA) AllocMemory(int) (*datagram.Memory, error) { return nil, datagram.ErrNotSupported }

func (NoRDMA) GetMR([]byte, netip.Addr, datagram.MRFlags) (datagram.Cookie, error) {
	return 0, datagram.ErrNotSupported
}

func (NoRDMA) FreeMR(datagram.Cookie, datagram.MRFlags) error { return datagram.ErrNotSupported }

func (NoRDMA) GetMRBatch([]datagram.Cookie, [][]byte, datagram.MRFlags) (int, error) {
	return 0, datagram.ErrNotSupported
}

func (NoRDMA) FreeMRBatch([]datagram.Cookie, datagram.MRFlags) (int, error) {
	return 0, datagram.ErrNotSupported
}
