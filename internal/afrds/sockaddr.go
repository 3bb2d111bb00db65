package afrds

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
)

const (
	afINET  = 2  // AF_INET on Linux
	afINET6 = 10 // AF_INET6 on Linux

	sizeofSockaddrInet4 = 16
	sizeofSockaddrInet6 = 28
)

var (
	errBadAddress  = errors.New("afrds: not an IPv4 or IPv6 address")
	errBadZone     = errors.New("afrds: unknown IPv6 zone")
	errBadSockaddr = errors.New("afrds: malformed socket address")
)

// rawSockaddr is room for a struct sockaddr_in or sockaddr_in6 in the layout
// of Linux: family in host order, port and address in network order, scope in
// host order.
type rawSockaddr [sizeofSockaddrInet6]byte

// put encodes ap and returns the length of the form used: sockaddr_in for
// IPv4, v4-mapped addresses included, else sockaddr_in6.
func (sa *rawSockaddr) put(ap netip.AddrPort) (int, error) {
	addr := ap.Addr().Unmap()
	switch {
	case addr.Is4():
		a := addr.As4()
		binary.NativeEndian.PutUint16(sa[0:], afINET)
		binary.BigEndian.PutUint16(sa[2:], ap.Port())
		copy(sa[4:8], a[:])
		clear(sa[8:])
		return sizeofSockaddrInet4, nil
	case addr.Is6():
		scope, err := zoneIndex(addr.Zone())
		if err != nil {
			return 0, err
		}
		a := addr.As16()
		binary.NativeEndian.PutUint16(sa[0:], afINET6)
		binary.BigEndian.PutUint16(sa[2:], ap.Port())
		clear(sa[4:8]) // flow information
		copy(sa[8:24], a[:])
		binary.NativeEndian.PutUint32(sa[24:], scope)
		return sizeofSockaddrInet6, nil
	default:
		return 0, errBadAddress
	}
}

// parseSockaddr decodes what the kernel wrote. No bytes at all is no address,
// and so is family 0, the name of a socket not bound (net/rds/af_rds.c,
// rds_getname).
func parseSockaddr(b []byte) (netip.AddrPort, error) {
	if len(b) == 0 {
		return netip.AddrPort{}, nil
	}
	if len(b) < sizeofSockaddrInet4 {
		return netip.AddrPort{}, errBadSockaddr
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case 0:
		return netip.AddrPort{}, nil
	case afINET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case afINET6:
		if len(b) < sizeofSockaddrInet6 {
			return netip.AddrPort{}, errBadSockaddr
		}
		addr := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && addr.Is6() {
			addr = addr.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(addr, port), nil
	default:
		return netip.AddrPort{}, errBadSockaddr
	}
}

// zoneIndex turns a zone into a scope id. Addresses from the kernel carry the
// number; names are looked up among the interfaces.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, errBadZone
	}
	return uint32(i.Index), nil
}
