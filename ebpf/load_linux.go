package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// loading is what is set before programs are loaded.
type loading struct {
	ports    []uint16             // TCP ports; nil is defaultPorts
	set      map[string]any       // further constants of the programs, by their names
	programs []string             // the programs to load; nil is all of them
	maps     map[string]*ebpf.Map // maps to use in place of new ones, by their names; may be nil
	btf      *btf.Cache           // the kernel's types, kept from one load to the next; may be nil
}

// load loads the programs of an object. The error is one of the kernel's or the loader's:
// feature.err makes it one of this package.
func load(object func() (*ebpf.CollectionSpec, error), l loading) (*ebpf.Collection, error) {
	// Without the capability, the loader's own probes take everything to be missing.
	if !hasCapability(unix.CAP_BPF) && !hasCapability(unix.CAP_SYS_ADMIN) {
		return nil, ErrPermission
	}
	spec, err := object()
	if err != nil {
		return nil, err
	}
	if l.programs != nil {
		keep := make(map[string]*ebpf.ProgramSpec, len(l.programs))
		for _, name := range l.programs {
			keep[name] = spec.Programs[name]
		}
		spec.Programs = keep
	}
	ports := l.ports
	if ports == nil {
		ports = defaultPorts
	}
	if len(ports) > MaxPorts {
		return nil, fmt.Errorf("%d ports, at most %d", len(ports), MaxPorts)
	}
	var all [MaxPorts]uint16
	copy(all[:], ports)
	set := map[string]any{"rds_ports": all, "rds_ports_len": uint32(len(ports))}
	for name, v := range l.set {
		set[name] = v
	}
	for name, value := range set {
		if v := spec.Variables[name]; v != nil { // a program that does not look at ports has none
			if err := v.Set(value); err != nil {
				return nil, err
			}
		}
	}
	// Before Linux 5.11 maps count as locked memory. Where that limit cannot be lifted, loading says so.
	_ = rlimit.RemoveMemlock()
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: l.btf, MapReplacements: l.maps})
}

// hasCapability tells whether the calling thread may use a capability, numbered as in
// linux/capability.h.
func hasCapability(c int) bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[c/32].Effective&(1<<(c%32)) != 0
}
