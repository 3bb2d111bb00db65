package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

var (
	handoverFeature = &feature{name: "handover by sk_lookup", kernel: "5.9", capabilities: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
		probe: probeHandover}
	handoverPinsFeature = &feature{name: "pinned handover",
		capabilities: "to be owner or group of the pins (before Linux 5.19 also CAP_BPF), or root with CAP_DAC_OVERRIDE"}
)

// Handover brings TCP connections to listening sockets by the address that is connected to:
// one socket can have the connections to thousands of addresses, and several processes can have
// prefixes of one range. The longest prefix counts. Where no socket has registered, or the one
// that has is closed, connections go where they would go without a handover. The methods may be
// called by several goroutines, and, where the handover is pinned, by several processes.
type Handover struct {
	mu   sync.Mutex
	conf handoverConfig
	maps map[string]*ebpf.Map // nil after Close
	lock *os.File             // directory that excludes other processes from registering; nil: not pinned
	link link.Link            // nil: pinned
}

// handoverConfig is what a handover was loaded with. The map rds_handover has it in JSON.
type handoverConfig struct {
	Ports  []uint16 `json:"ports"`
	Cookie uint64   `json:"cookie"` // cookie of the network namespace, SO_NETNS_COOKIE; 0: not known
	Netns  uint32   `json:"netns"`  // inode of the network namespace
	Owner  int      `json:"owner"`
	Group  int      `json:"group"`
	Tag    string   `json:"tag"` // digest of the program
}

// Maps of handover.bpf.c.
const (
	mapPrefixes       = "rds_prefixes"
	mapListeners      = "rds_listeners"
	mapHanded         = "rds_handed"
	mapFilter         = "rds_filter"
	mapHandover       = "rds_handover"
	handoverProgram   = "handover_lookup"
	handoverConfigMax = 4096
)

// LoadHandover loads a handover into the kernel, without any prefix. It takes CAP_BPF,
// CAP_PERFMON and CAP_NET_ADMIN; pinning for an owner takes CAP_CHOWN and CAP_DAC_OVERRIDE as
// well, and where there are other programs of sk_lookup, such as an [Admission] with Refuse,
// CAP_SYS_ADMIN. A stranger to an admission is refused at addresses of a handover too, whichever
// is loaded first.
//
// Where a handover of the same network namespace is pinned in the directory already, what is
// registered there stays, also with other ports or another owner, and there is no moment
// without it. LoadHandover waits 5 s at most for another process that is changing the directory.
// The handover must be closed. That ends it if it is not pinned.
func LoadHandover(o HandoverOptions) (*Handover, error) {
	o, err := o.validate()
	if err != nil {
		return nil, &Error{Feature: handoverFeature.name, Err: err}
	}
	conf := handoverConfig{Ports: o.Ports, Owner: o.Owner, Group: o.Group}
	spec, err := bpf.LoadHandover()
	if err != nil {
		return nil, handoverFeature.err(err)
	}
	//lint:ignore SA1019 The tag is compared with the tags of other loads only, never with the kernel's.
	if conf.Tag, err = spec.Programs[handoverProgram].Tag(); err != nil {
		return nil, handoverFeature.err(err)
	}
	var h *Handover
	err = inNetns(o.Netns, func() error {
		if err := conf.here(); err != nil {
			return err
		}
		if o.Dir != "" {
			h, err = loadPinnedHandover(o.Dir, o.Keep, conf)
		} else {
			h, err = loadUnpinnedHandover(conf)
		}
		return err
	})
	if err != nil {
		return nil, handoverFeature.err(err)
	}
	return h, nil
}

func loadUnpinnedHandover(conf handoverConfig) (*Handover, error) {
	h, program, err := newHandover(conf, nil)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if h.link, err = attachLookup(program, h.fillSlot); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// here notes the network namespace of the calling thread.
func (c *handoverConfig) here() (err error) {
	if c.Netns, err = netnsInode(); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	c.Cookie, _ = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE) // Linux 5.14 has it
	return nil
}

// sameNetns tells whether two configurations are of one network namespace. The kernel uses an
// inode again when a namespace is gone, a cookie never.
func (c *handoverConfig) sameNetns(d *handoverConfig) bool {
	if c.Cookie != 0 && d.Cookie != 0 {
		return c.Cookie == d.Cookie
	}
	return c.Netns == d.Netns
}

// newHandover loads the program, and maps where they are not given. It attaches nothing. The
// caller closes the program.
func newHandover(conf handoverConfig, maps map[string]*ebpf.Map) (*Handover, *ebpf.Program, error) {
	c, err := load(bpf.LoadHandover, loading{ports: conf.Ports, maps: maps})
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	h := &Handover{conf: conf, maps: make(map[string]*ebpf.Map)}
	for _, name := range []string{mapPrefixes, mapListeners, mapHanded, mapFilter, mapHandover} {
		h.maps[name] = c.DetachMap(name)
	}
	return h, c.DetachProgram(handoverProgram), nil
}

func probeHandover() error {
	h, program, err := newHandover(handoverConfig{Ports: defaultPorts}, nil)
	if err != nil {
		return err
	}
	program.Close()
	return h.Close()
}

// OpenHandover opens a handover that is pinned in a directory, to register listeners. It needs
// no capability, but to be the owner or of the group that the handover was loaded for; before
// Linux 5.19, where the kernel refuses BPF to unprivileged users, also CAP_BPF. The error Is
// os.ErrNotExist if there is no handover. It cannot remove the handover.
func OpenHandover(dir string) (*Handover, error) {
	h, err := openPinnedHandover(dir)
	return h, handoverPinsFeature.err(err)
}

// UnloadHandover takes out the handover that is pinned in a directory, and removes its pins.
// Sockets that are registered go on listening at the address that they are bound to, and
// nowhere else. It takes CAP_DAC_OVERRIDE. The error Is os.ErrNotExist if there is none.
func UnloadHandover(dir string) error { return handoverPinsFeature.err(unloadPinnedHandover(dir)) }

// Close frees what this process has of the handover. That ends a handover that is not pinned.
// Listeners stay registered in a pinned one.
func (h *Handover) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	if h.link != nil {
		errs = append(errs, h.link.Close())
	}
	for _, m := range h.maps {
		errs = append(errs, m.Close())
	}
	if h.lock != nil {
		errs = append(errs, h.lock.Close())
	}
	h.link, h.maps, h.lock = nil, nil, nil
	return errors.Join(errs...)
}

// locked calls f while nobody else registers.
func (h *Handover) locked(f func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.maps == nil {
		return fmt.Errorf("handover: %w", os.ErrClosed)
	}
	if h.lock != nil {
		unlock, err := exclude(h.lock)
		if err != nil {
			return fmt.Errorf("handover: another process is registering: %w", err)
		}
		defer unlock()
	}
	return f()
}

// live tells whether a socket with a cookie is registered and listens.
func (h *Handover) live(cookie uint64) (bool, error) {
	var found uint64
	err := h.maps[mapListeners].Lookup(cookie, &found)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Prefixes are all registered prefixes, in order, also those that processes have left that are
// dead.
func (h *Handover) Prefixes() (all []HandoverPrefix, err error) {
	err = h.locked(func() error {
		all, err = h.prefixesLocked()
		return handoverPinsFeature.err(err)
	})
	return all, err
}

func (h *Handover) prefixesLocked() (all []HandoverPrefix, err error) {
	var (
		key   prefixKey
		value prefixValue
	)
	lives := make(map[uint64]bool)
	it := h.maps[mapPrefixes].Iterate()
	for it.Next(&key, &value) {
		cookie := value.Cookie
		live, known := lives[cookie]
		if !known {
			if live, err = h.live(cookie); err != nil {
				return nil, err
			}
			lives[cookie] = live
		}
		all = append(all, HandoverPrefix{Prefix: key.prefix(), Port: key.port(), Cookie: cookie, Live: live})
	}
	slices.SortFunc(all, func(a, b HandoverPrefix) int {
		if a.Port != b.Port {
			return int(a.Port) - int(b.Port)
		}
		return netip.Prefix.Compare(a.Prefix, b.Prefix)
	})
	return all, it.Err()
}

// Status counts what is registered and what was handed over.
func (h *Handover) Status() (s HandoverStatus, err error) {
	err = h.locked(func() error {
		s.Ports = slices.Clone(h.conf.Ports)
		var thread handoverConfig
		if err := thread.here(); err != nil {
			return err
		}
		s.Here = h.conf.sameNetns(&thread)
		all, err := h.prefixesLocked()
		if err != nil {
			return handoverPinsFeature.err(err)
		}
		sockets := make(map[uint64]bool)
		for _, p := range all {
			if !p.Live {
				s.Vacant++
				continue
			}
			s.Prefixes++
			sockets[p.Cookie] = true
		}
		s.Listeners = len(sockets)
		var totals []struct{ Handed, Missed, Refused uint64 }
		if err := h.maps[mapHanded].Lookup(uint32(0), &totals); err != nil {
			return handoverPinsFeature.err(err)
		}
		for _, t := range totals {
			s.Handed += t.Handed
			s.Missed += t.Missed
		}
		return nil
	})
	return s, err
}
