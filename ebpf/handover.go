package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// HandoverOptions say what [LoadHandover] loads and where.
type HandoverOptions struct {
	// Dir is a directory on a BPF file system, such as /sys/fs/bpf/rds/handover, of nothing
	// else's. It is made where it is missing; its parent is there. What is pinned in it stays
	// until UnloadHandover, whatever becomes of this process. Empty: nothing is pinned, and the
	// handover ends with Close, or with the process.
	Dir string
	// Ports are the TCP ports that connections are handed over of, at most MaxPorts. Nil: 16385 and
	// 18634.
	Ports []uint16
	// Netns is the file of the network namespace, such as /run/netns/blue or /proc/17/ns/net.
	// Empty: the namespace of the calling thread. Another one takes CAP_SYS_ADMIN.
	Netns string
	// Owner and Group are a user, and a group if it is not 0, who may register listeners
	// through OpenHandover besides those with CAP_DAC_OVERRIDE. Whoever may register a listener
	// may take connections from others who may. The directories above Dir must let them through.
	Owner, Group int
	// Keep leaves alone what others may rely on. A handover that is pinned in Dir already, and is
	// for this network namespace and for all of Ports, keeps its own ports, owner and group.
	// Otherwise, as long as it has a listening socket that has not been closed, it stays as it is,
	// and the error Is syscall.EBUSY.
	Keep bool
}

// validate returns the options with defaults, or an error in words.
func (o HandoverOptions) validate() (HandoverOptions, error) {
	switch {
	case o.Ports != nil && len(o.Ports) == 0:
		return o, errors.New("an empty list of ports")
	case slices.Contains(o.Ports, 0):
		return o, errors.New("port 0")
	case o.Owner < 0:
		return o, fmt.Errorf("owner %d is no uid", o.Owner)
	case o.Group < 0:
		return o, fmt.Errorf("group %d is no gid", o.Group)
	}
	if o.Ports == nil {
		o.Ports = slices.Clone(defaultPorts)
	}
	if len(o.Ports) > MaxPorts {
		return o, fmt.Errorf("%d ports, at most %d", len(o.Ports), MaxPorts)
	}
	return o, nil
}

// HandoverPrefix is one registered prefix.
type HandoverPrefix struct {
	Prefix netip.Prefix `json:"prefix"`
	Port   uint16       `json:"port"`
	// Cookie is that of the listening socket (SO_COOKIE).
	Cookie uint64 `json:"cookie"`
	// Live tells whether the socket still listens. If not, nothing is handed over.
	Live bool `json:"live"`
}

// HandoverStatus is what a handover is and has done.
type HandoverStatus struct {
	Ports     []uint16 `json:"ports"`     // TCP ports that connections are handed over of
	Here      bool     `json:"here"`      // the handover is of the calling thread's network namespace
	Listeners int      `json:"listeners"` // listening sockets that are registered and have not been closed
	Prefixes  int      `json:"prefixes"`  // prefixes of these
	Vacant    int      `json:"vacant"`    // prefixes of sockets that were closed
	// Handed counts the look-ups of a listener that found a registered one, since the handover
	// was loaded: SYNs, and packets that belong to no connection. Missed counts those for
	// addresses whose socket was closed.
	Handed uint64 `json:"handed"`
	Missed uint64 `json:"missed"`
}

// prefixKey is a key of the map rds_prefixes: struct prefix_key of handover.bpf.c.
type prefixKey struct {
	PrefixLen uint32
	Port      [2]byte // big endian
	Family    uint8   // 4 or 6
	_         uint8
	Addr      [16]byte
}

// prefixValue is a value of the map rds_prefixes.
type prefixValue struct {
	Cookie    uint64
	PrefixLen uint32
	_         uint32
}

// portBits are the bits of port and family in a key's length.
const portBits = 32

// prefixKeyOf is the key of a prefix: IPv4 is mapped into IPv6, and bits behind the length are
// cleared.
func prefixKeyOf(p netip.Prefix, port uint16) (k prefixKey, err error) {
	a, bits := p.Addr(), p.Bits()
	switch {
	case !p.IsValid(), a.Is4In6() && bits < 96:
		return k, fmt.Errorf("%v is not a prefix", p)
	case a.Is4In6():
		p = netip.PrefixFrom(a.Unmap(), bits-96)
	}
	p = p.Masked()
	k = prefixKey{PrefixLen: uint32(portBits + p.Bits()), Port: [2]byte{byte(port >> 8), byte(port)}, Family: 6, Addr: p.Addr().As16()}
	if p.Addr().Is4() {
		k.PrefixLen, k.Family = k.PrefixLen+96, 4
	}
	return k, nil
}

func (k *prefixKey) prefix() netip.Prefix {
	a, bits := netip.AddrFrom16(k.Addr), int(k.PrefixLen)-portBits
	if k.Family == 4 {
		return netip.PrefixFrom(a.Unmap(), bits-96)
	}
	return netip.PrefixFrom(a, bits)
}

func (k *prefixKey) port() uint16 { return uint16(k.Port[0])<<8 | uint16(k.Port[1]) }
