package ebpf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// MaxPrefixes bounds the list of an [Admission]; a node's own list has the same bound.
const MaxPrefixes = 65536

// Deny is what a stranger gets, whose address is not on the list.
type Deny string

const (
	// Silent drops the first packet of a connection: the stranger's connect times out, and
	// tries seldom. It takes tcx or XDP, on each interface.
	Silent Deny = "silent"
	// Refuse resets the connection: the stranger's connect fails at once with "connection
	// refused". It takes sk_lookup, which filters every interface, those that come later too.
	Refuse Deny = "refuse"
)

// AdmissionOptions say what [LoadAdmission] loads and where.
type AdmissionOptions struct {
	// Dir is a directory on a BPF file system, such as /sys/fs/bpf/rds, that the filter is
	// pinned in. It is made where it is missing; its parent is there. A pinned filter stays
	// until UnloadAdmission, whatever becomes of this process. Empty: the filter is not pinned
	// and ends with Close, or with the process.
	Dir string
	// Deny is what strangers get.
	Deny Deny
	// Ports are the TCP ports that are filtered, at most MaxPorts. Nil: 16385 and 18634.
	Ports []uint16
	// Netns is the file of the network namespace that is filtered, such as /run/netns/blue or
	// /proc/17/ns/net. Empty: the namespace of the calling thread. Another one takes
	// CAP_SYS_ADMIN.
	Netns string
	// Interfaces are the names of those to filter, with Silent only. Nil: all that there are now
	// but loopback. One that comes later is not filtered.
	Interfaces []string
	// Owner is the user who may change the list through OpenAdmission besides those with
	// CAP_DAC_OVERRIDE: the map pins belong to that uid. The zero value is root, whose processes
	// need no capability then. The directories above Dir must let the owner through.
	Owner int
	// Allow is the first list; empty lets everybody connect. A filter that is pinned in Dir
	// already keeps its list.
	Allow []netip.Prefix
}

// validate returns the options with defaults, or an error in words.
func (o AdmissionOptions) validate() (AdmissionOptions, error) {
	switch {
	case o.Deny != Silent && o.Deny != Refuse:
		return o, fmt.Errorf("deny %q, want %q or %q", o.Deny, Silent, Refuse)
	case o.Deny == Refuse && o.Interfaces != nil:
		return o, fmt.Errorf("deny %q filters all interfaces: none can be named", Refuse)
	case o.Deny == Silent && o.Interfaces != nil && len(o.Interfaces) == 0:
		return o, errors.New("an empty list of interfaces")
	case o.Ports != nil && len(o.Ports) == 0:
		return o, errors.New("an empty list of ports")
	case slices.Contains(o.Ports, 0):
		return o, errors.New("port 0")
	case o.Owner < 0:
		return o, fmt.Errorf("owner %d is no uid", o.Owner)
	case slices.Contains(o.Interfaces, "lo"):
		return o, errors.New("interface lo: a host's own addresses may always connect")
	}
	if o.Ports == nil {
		o.Ports = slices.Clone(defaultPorts)
	}
	if len(o.Ports) > MaxPorts {
		return o, fmt.Errorf("%d ports, at most %d", len(o.Ports), MaxPorts)
	}
	_, err := listKeys(o.Allow)
	return o, err
}

// AdmissionStatus is what a filter is and has done.
type AdmissionStatus struct {
	Deny     Deny     `json:"deny"`
	Hooks    []string `json:"hooks"`    // where the programs are, such as "sk_lookup" or "tcx on eth0" or "XDP on eth0 (generic)"
	Ports    []uint16 `json:"ports"`    // TCP ports that are filtered
	Prefixes int      `json:"prefixes"` // length of the list; 0: everybody may connect
	// Here tells whether it is the calling thread's network namespace that is filtered.
	Here bool `json:"here"`
	// Version is another one whenever the list was set, by whichever process, and of each filter.
	Version string `json:"version"`
	// Passed and Refused count attempts to connect since the filter was loaded: SYNs, and with
	// Refuse other packets that belong to no connection. A SYN that is sent again counts again,
	// and so does one that passes two filtered interfaces, such as eth0 and eth0.5, or one that
	// a handover asks about (see LoadHandover).
	Passed  uint64 `json:"passed"`
	Refused uint64 `json:"refused"`
}

// Counts are the attempts of one stranger to connect.
type Counts struct {
	Refused uint64    `json:"refused"`
	Last    time.Time `json:"last"` // the last attempt
}

// listKey is a key of the map rds_list: struct list_key of admission.bpf.c. The tag is filled
// in when the list's generation is known.
type listKey struct {
	PrefixLen uint32
	Tag       [4]byte // generation * 2, and 1 for IPv4; big endian
	Addr      [16]byte
}

// tagBits are the bits of the tag in a key's length.
const tagBits = 32

func (k *listKey) setGeneration(generation uint32) {
	binary.BigEndian.PutUint32(k.Tag[:], generation<<1|uint32(k.Tag[3]&1))
}

func (k *listKey) generation() uint32 { return binary.BigEndian.Uint32(k.Tag[:]) >> 1 }

func (k *listKey) prefix() netip.Prefix {
	a, bits := netip.AddrFrom16(k.Addr), int(k.PrefixLen)-tagBits
	if k.Tag[3]&1 != 0 {
		return netip.PrefixFrom(a.Unmap(), bits-96)
	}
	return netip.PrefixFrom(a, bits)
}

// listKeys are the keys of a list, each once and in order, of generation 0. IPv4 addresses are
// mapped into IPv6.
func listKeys(list []netip.Prefix) ([]listKey, error) {
	if len(list) > MaxPrefixes {
		return nil, fmt.Errorf("%d prefixes, at most %d", len(list), MaxPrefixes)
	}
	keys := make([]listKey, 0, len(list))
	for _, p := range list {
		bits := p.Bits()
		switch a := p.Addr(); {
		case !p.IsValid(), a.Is4In6() && bits < 96:
			// A prefix that has mapped and other addresses in it means nothing.
			return nil, fmt.Errorf("%v is not a prefix", p)
		case a.Is4():
			bits += 96
		}
		k := listKey{PrefixLen: uint32(tagBits + bits), Addr: p.Addr().As16()}
		if p.Addr().Unmap().Is4() {
			k.Tag[3] = 1
		}
		for i := range k.Addr {
			if keep := bits - 8*i; keep < 8 {
				k.Addr[i] &= ^byte(0xff >> max(keep, 0))
			}
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b listKey) int {
		return cmp.Or(slices.Compare(a.Tag[:], b.Tag[:]), slices.Compare(a.Addr[:], b.Addr[:]), cmp.Compare(a.PrefixLen, b.PrefixLen))
	})
	return slices.Compact(keys), nil
}
