package ebpf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// listener is what the kernel says of a listening socket.
type listener struct {
	fd      uint32
	cookie  uint64
	netns   uint64 // cookie of its network namespace; 0: not known
	ip4     bool   // it can accept IPv4 connections
	ip6     bool
	carrier int // IPPROTO_TCP or IPPROTO_MPTCP
}

// withListener calls f while the socket cannot be closed.
func withListener(ln *net.TCPListener, f func(*listener) error) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	e := raw.Control(func(fd uintptr) {
		l := &listener{fd: uint32(fd)}
		if err = l.look(int(fd)); err == nil {
			err = f(l)
		}
	})
	if e != nil {
		return e
	}
	return err
}

func (l *listener) look(fd int) (err error) {
	if l.cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
		return err
	}
	l.netns, _ = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	l.ip4, l.ip6 = domain == unix.AF_INET, domain == unix.AF_INET6
	if l.ip6 {
		only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		if err != nil {
			return err
		}
		l.ip4 = only == 0
	}
	l.carrier, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err
}

// Register has TCP connections to the addresses of some prefixes, on a port, handed over to a
// listening socket. The socket accepts them as if it were bound to each of the addresses; it
// may be bound to any address and port. The addresses must be the host's, for example by
// "ip route add local 10.1.0.0/20 dev lo": the kernel looks for a listener only then.
//
// Prefixes that the socket has registered before stay registered. The error Is
// syscall.EADDRINUSE if one of the same prefixes belongs to another socket that has not been
// closed; what closed sockets have left is taken. After an error nothing has changed.
//
// The socket must be plain TCP: Go makes multipath sockets unless ListenConfig.SetMultipathTCP
// says otherwise. It stays registered until Unregister, or until all descriptors of it are
// closed: one that was passed to another process goes on there.
func (h *Handover) Register(prefixes []netip.Prefix, port uint16, ln *net.TCPListener) error {
	if !slices.Contains(h.conf.Ports, port) {
		return fmt.Errorf("handover: port %d is none of %v", port, h.conf.Ports)
	}
	keys := make([]prefixKey, len(prefixes))
	for i, p := range prefixes {
		var err error
		if keys[i], err = prefixKeyOf(p, port); err != nil {
			return fmt.Errorf("handover: %w", err)
		}
	}
	return h.locked(func() error {
		return withListener(ln, func(l *listener) error {
			switch {
			case l.carrier != unix.IPPROTO_TCP:
				return fmt.Errorf("handover: %v is not plain TCP (multipath TCP?)", ln.Addr())
			case l.netns != 0 && h.conf.Cookie != 0 && l.netns != h.conf.Cookie:
				return fmt.Errorf("handover: %v is in another network namespace than the handover", ln.Addr())
			}
			for i, k := range keys {
				if k.Family == 4 && !l.ip4 || k.Family == 6 && !l.ip6 {
					return fmt.Errorf("handover: %v cannot accept connections to %v", ln.Addr(), prefixes[i])
				}
			}
			return h.registerLocked(keys, l)
		})
	})
}

func (h *Handover) registerLocked(keys []prefixKey, l *listener) error {
	trie := h.maps[mapPrefixes]
	var fresh []prefixKey // prefixes of closed sockets, or of no socket
	for _, k := range keys {
		switch owner, there, err := h.exact(k); {
		case err != nil:
			return handoverPinsFeature.err(err)
		case there && owner == l.cookie:
			continue
		case there:
			live, err := h.live(owner)
			if err != nil {
				return handoverPinsFeature.err(err)
			}
			if live {
				return fmt.Errorf("handover: %v port %d belongs to another socket: %w", k.prefix(), k.port(), unix.EADDRINUSE)
			}
		}
		fresh = append(fresh, k)
	}
	known, err := h.live(l.cookie)
	if err == nil && !known {
		err = h.maps[mapListeners].Put(l.cookie, uint64(l.fd))
	}
	if err != nil {
		return handoverPinsFeature.err(err)
	}
	for i, k := range fresh {
		v := prefixValue{Cookie: l.cookie, PrefixLen: k.PrefixLen}
		err := trie.Put(k, v)
		if errors.Is(err, unix.ENOSPC) {
			if err = h.sweepLocked(); err == nil {
				err = trie.Put(k, v)
			}
		}
		if err != nil {
			for _, k := range fresh[:i] {
				_ = trie.Delete(k)
			}
			if !known {
				_ = h.maps[mapListeners].Delete(l.cookie)
			}
			return handoverPinsFeature.err(err)
		}
	}
	return nil
}

// exact looks up a prefix, and no shorter one.
func (h *Handover) exact(k prefixKey) (cookie uint64, there bool, err error) {
	var v prefixValue
	err = h.maps[mapPrefixes].Lookup(k, &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	return v.Cookie, err == nil && v.PrefixLen == k.PrefixLen, err
}

// sweepLocked deletes the prefixes that closed sockets have left.
func (h *Handover) sweepLocked() error {
	all, err := h.prefixesLocked()
	if err != nil {
		return err
	}
	return h.deleteLocked(all, func(p HandoverPrefix) bool { return !p.Live })
}

func (h *Handover) deleteLocked(all []HandoverPrefix, which func(HandoverPrefix) bool) error {
	for _, p := range all {
		if !which(p) {
			continue
		}
		k, err := prefixKeyOf(p.Prefix, p.Port)
		if err == nil {
			err = h.maps[mapPrefixes].Delete(k)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// Unregister ends the handover of all prefixes of a listening socket, which goes on listening
// at the address that it is bound to. It is no error if the socket is not registered. A prefix
// of another socket that these were parts of has their addresses from then on.
func (h *Handover) Unregister(ln *net.TCPListener) error {
	return h.locked(func() error {
		return withListener(ln, func(l *listener) error {
			all, err := h.prefixesLocked()
			if err == nil {
				err = h.deleteLocked(all, func(p HandoverPrefix) bool { return p.Cookie == l.cookie })
			}
			if err == nil {
				err = h.maps[mapListeners].Delete(l.cookie)
			}
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				err = nil
			}
			return handoverPinsFeature.err(err)
		})
	})
}
