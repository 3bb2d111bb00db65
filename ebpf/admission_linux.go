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

	"github.com/rds-go/rds/ebpf/internal/bpf"
)

var (
	refuseFeature = &feature{name: "admission by sk_lookup", kernel: "5.17", capabilities: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
		probe: func() error { return probeAdmission(hookLookup) }}
	tcxFeature = &feature{name: "admission by tcx", kernel: "6.6", capabilities: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
		probe: func() error { return probeAdmission(hookTCX) }}
	xdpFeature = &feature{name: "admission by XDP", kernel: "5.18", capabilities: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
		probe: func() error { return probeAdmission(hookXDP) }}
	silentFeature = &feature{name: "admission by tcx or XDP", kernel: "5.18", capabilities: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"}
	pinsFeature   = &feature{name: "pinned admission", capabilities: "the owner of the pins (before Linux 5.19 also CAP_BPF), or root with CAP_DAC_OVERRIDE"}
)

// Admission is a filter in the kernel: it turns away connections from addresses that are not on
// its list, before TCP answers and before the listening program hears of them. Connections that
// exist are not looked at, also not those of peers that leave the list. The methods may be
// called by several goroutines, and, where the filter is pinned, by several processes.
//
// A host may always connect to its own addresses. With Refuse those are learned by LoadAdmission
// and by Set, where that is called in the filter's network namespace: an address that the host
// gets later is allowed to connect to itself, and to others from the next Set on.
type Admission struct {
	mu    sync.Mutex
	conf  admissionConfig
	maps  map[string]*ebpf.Map
	lock  *os.File // the directory that excludes other processes from changing the list; nil: not pinned
	links []link.Link

	written *listEntries // by the last Set, if that was of this Admission; else nil
}

// admissionConfig is what a filter was loaded with. A pinned one keeps it in the map rds_config.
type admissionConfig struct {
	Deny  Deny              `json:"deny"`
	Ports []uint16          `json:"ports"`
	Owner int               `json:"owner"`
	Tags  map[string]string `json:"tags"` // digests of the programs, by their names
	Hooks []hook            `json:"hooks"`
	Ether bool              `json:"ether"` // all interfaces have Ethernet headers
}

// Maps of admission.bpf.c.
const (
	mapList    = "rds_list"
	mapState   = "rds_state"
	mapRefused = "rds_refused"
	mapTotals  = "rds_totals"
	mapConfig  = "rds_config"
)

// LoadAdmission loads a filter into the kernel. It takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN;
// pinning for an owner takes CAP_CHOWN and CAP_DAC_OVERRIDE as well, and Refuse where there are
// other programs of sk_lookup, such as a [Handover], CAP_SYS_ADMIN. It needs Linux 5.17 with
// Refuse, and with Silent 6.6 for tcx, or 5.18 for XDP, which is used where tcx is missing.
//
// Where a filter is pinned in the directory already, its list and its counts stay. If its
// options and programs are the same, LoadAdmission only opens it. Otherwise the new filter
// takes the place of the old one, and there is no moment without either; processes that have
// opened the old one go on changing the list of the new one.
//
// The filter must be closed. That ends it if it is not pinned.
func LoadAdmission(o AdmissionOptions) (*Admission, error) {
	hooks := []hookKind{hookLookup}
	f := refuseFeature
	if o.Deny == Silent {
		hooks, f = []hookKind{hookTCX, hookXDP}, silentFeature
	}
	return loadAdmission(o, f, hooks)
}

// loadAdmission tries hooks of several kinds, the first that the kernel has. The feature is
// what errors name.
func loadAdmission(o AdmissionOptions, f *feature, kinds []hookKind) (*Admission, error) {
	o, err := o.validate()
	if err != nil {
		return nil, &Error{Feature: f.name, Err: err}
	}
	for _, kind := range kinds {
		var a *Admission
		if a, err = loadHooks(o, kind); err == nil {
			return a, nil
		}
		if err = classify(err); !errors.Is(err, ErrNotSupported) {
			break
		}
	}
	return nil, f.err(err)
}

func loadHooks(o AdmissionOptions, kind hookKind) (_ *Admission, err error) {
	conf := admissionConfig{Deny: o.Deny, Ports: o.Ports, Owner: o.Owner}
	if conf.Hooks, conf.Ether, err = wantedHooks(o, kind); err != nil {
		return nil, err
	}
	spec, err := bpf.LoadAdmission()
	if err != nil {
		return nil, err
	}
	conf.Tags = make(map[string]string)
	//lint:ignore SA1019 The tag is compared with the tags of other loads only, never with the kernel's.
	if conf.Tags[kind.program()], err = spec.Programs[kind.program()].Tag(); err != nil {
		return nil, err
	}
	if o.Dir != "" {
		return loadPinned(o, conf, kind)
	}
	a, program, err := newAdmission(conf, kind, nil)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if err := inNetns(o.Netns, func() error { return a.Set(o.Allow) }); err != nil {
		a.Close()
		return nil, err
	}
	for i := range a.conf.Hooks {
		l, err := a.conf.Hooks[i].attach(o.Netns, program)
		if err != nil {
			a.Close()
			return nil, err
		}
		a.links = append(a.links, l)
	}
	return a, nil
}

// newAdmission loads the program for hooks of a kind, and maps where they are not given. It
// attaches nothing. The caller closes the program.
func newAdmission(conf admissionConfig, kind hookKind, maps map[string]*ebpf.Map) (*Admission, *ebpf.Program, error) {
	c, err := load(bpf.LoadAdmission, loading{ports: conf.Ports, programs: []string{kind.program()}, maps: maps,
		set: map[string]any{bpf.AdmissionVarRdsEthernet: conf.Ether}})
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	a := &Admission{conf: conf, maps: make(map[string]*ebpf.Map)}
	for _, name := range []string{mapList, mapState, mapRefused, mapTotals, mapConfig} {
		a.maps[name] = c.DetachMap(name)
	}
	return a, c.DetachProgram(kind.program()), nil
}

// OpenAdmission opens a filter that is pinned in a directory, to change and to read its list.
// It needs no capability, but to be the owner that the filter was loaded for; before Linux
// 5.19, where the kernel refuses BPF to unprivileged users, also CAP_BPF. The error Is
// os.ErrNotExist if there is no filter. It cannot remove the filter.
func OpenAdmission(dir string) (*Admission, error) {
	a, err := openPinned(dir)
	return a, pinsFeature.err(err)
}

// UnloadAdmission takes out the filter that is pinned in a directory, and removes its pins. It
// takes CAP_DAC_OVERRIDE. The error Is os.ErrNotExist if there is none.
func UnloadAdmission(dir string) error { return pinsFeature.err(unloadPinned(dir)) }

// Close frees what this process has of the filter. That ends a filter that is not pinned.
func (a *Admission) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, l := range a.links {
		errs = append(errs, leaveHandovers(l), l.Close())
	}
	for _, m := range a.maps {
		errs = append(errs, m.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	a.links, a.maps, a.lock = nil, nil, nil
	return errors.Join(errs...)
}

// Set replaces the whole list: of at most MaxPrefixes prefixes, IPv4 or IPv6, IPv4 also mapped
// into IPv6. An empty list lets everybody connect. Each connection is judged by the old list or
// by the new one, never by a part of one. After an error the old list holds. Processes that
// call it at the same time wait for each other, for 5 seconds at most.
func (a *Admission) Set(list []netip.Prefix) error {
	keys, err := listKeys(list)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return a.locked(func() error { return a.setLocked(keys) })
}

// Allow reads the list. Its prefixes have no bits behind their lengths, and are in order.
func (a *Admission) Allow() (list []netip.Prefix, err error) {
	err = a.locked(func() error {
		s, err := a.stateLocked()
		if err != nil {
			return err
		}
		last, _, err := a.keysLocked(s)
		for _, k := range last.listed {
			list = append(list, k.prefix())
		}
		return err
	})
	slices.SortFunc(list, netip.Prefix.Compare)
	return list, err
}
