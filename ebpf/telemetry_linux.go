package ebpf

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/ebpf/internal/fs"
)

// Telemetry measures the TCP connections with the ports that it was loaded with, of all
// network namespaces. Its methods may be called at the same time, except Close.
type Telemetry struct {
	features []FeatureSupport
	tags     string // digest of the programs that were pinned
	loaded   time.Time
	options  TelemetryOptions
	drops    *ebpf.Map // nil: not counted
	// connections opens the list of the connections of the network namespace that the calling
	// thread is in.
	connections func() (io.ReadCloser, error)
	// What LoadTelemetry has made; OpenTelemetry makes nothing.
	programs map[string]*ebpf.Program
	maps     map[string]*ebpf.Map
	links    map[string]link.Link
}

// telemetryPart is what a feature is made of.
type telemetryPart struct {
	feature  *feature
	programs []string
	// attach makes one program of the part run; the result may be nil.
	attach func(t *Telemetry, p *ebpf.Program) (link.Link, error)
}

var telemetryParts = []telemetryPart{
	{telemetryConnections, []string{bpf.TelemetryProgTelemetryConnections}, attachIter},
	{telemetryRTT, []string{bpf.TelemetryProgTelemetryRtt}, attachSockops},
	{telemetryWait, []string{bpf.TelemetryProgTelemetryArrival, bpf.TelemetryProgTelemetryRead}, attachTracing},
	{telemetryDrops, []string{bpf.TelemetryProgTelemetryDrop}, attachTracing},
	{telemetryOlder, []string{bpf.TelemetryProgTelemetryAdopt}, adopt},
}

// LoadTelemetry begins to measure. With a directory to pin in, what is loaded stays there until
// [UnloadTelemetry]; what an earlier LoadTelemetry has pinned there is replaced, and what it
// has counted is gone. Parts that the kernel does not have are left out: see Features. The
// error is that of the list of connections, without which there is nothing.
//
// It takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and CAP_SYS_ADMIN to see connections of
// other network namespaces.
func LoadTelemetry(o TelemetryOptions) (*Telemetry, error) {
	if len(o.Ports) == 0 {
		o.Ports = slices.Clone(defaultPorts)
	}
	t := &Telemetry{loaded: time.Now(), options: o, programs: make(map[string]*ebpf.Program), maps: make(map[string]*ebpf.Map),
		links: make(map[string]link.Link)}
	cache := btf.NewCache()
	// All programs at once are loaded faster than part by part. One that cannot be loaded is the
	// end of all.
	l := loading{ports: o.Ports, btf: cache}
	for _, part := range telemetryParts {
		l.programs = append(l.programs, part.programs...)
	}
	all, err := load(bpf.LoadTelemetry, l)
	if err == nil {
		defer all.Close() // what is left in it
		t.takeMaps(all)
	}
	for _, part := range telemetryParts {
		err := part.feature.err(t.load(&part, &o, all, cache))
		t.features = append(t.features, FeatureSupport{Name: part.feature.name, Kernel: part.feature.kernel,
			Capabilities: part.feature.capabilities, Err: err})
		if err != nil && part.feature == telemetryConnections {
			t.Close()
			return nil, err
		}
	}
	it := t.links[bpf.TelemetryProgTelemetryConnections].(*link.Iter)
	t.connections = it.Open
	if t.links[bpf.TelemetryProgTelemetryDrop] != nil {
		t.drops = t.maps[bpf.TelemetryMapTelemetryDrops]
	}
	if o.Dir != "" {
		if err := t.pin(&o); err != nil {
			t.Close()
			return nil, telemetryConnections.err(err)
		}
	}
	return t, nil
}

func (t *Telemetry) takeMaps(c *ebpf.Collection) {
	for name := range c.Maps {
		if t.maps[name] == nil {
			t.maps[name] = c.DetachMap(name)
		}
	}
}

// load attaches a part; its programs are in a collection, or are loaded if that is nil.
func (t *Telemetry) load(part *telemetryPart, o *TelemetryOptions, c *ebpf.Collection, cache *btf.Cache) (err error) {
	for _, name := range part.programs {
		if slices.Contains(o.missing, name) {
			return ErrNotSupported
		}
	}
	if c == nil {
		c, err = load(bpf.LoadTelemetry, loading{ports: o.Ports, programs: part.programs, btf: cache, maps: t.maps})
		if err != nil {
			return err
		}
		defer c.Close() // what is left in it
		t.takeMaps(c)
	}
	if part.feature == telemetryDrops {
		if err := nameDrops(t.maps[bpf.TelemetryMapTelemetryDrops], cache); err != nil {
			return err
		}
	}
	links := make(map[string]link.Link)
	for _, name := range part.programs {
		if links[name], err = part.attach(t, c.Programs[name]); err != nil {
			for _, l := range links {
				if l != nil {
					l.Close()
				}
			}
			return err
		}
	}
	for name, l := range links {
		if l != nil {
			t.links[name] = l
			t.programs[name] = c.DetachProgram(name)
		}
	}
	return nil
}

func attachIter(_ *Telemetry, p *ebpf.Program) (link.Link, error) {
	return link.AttachIter(link.IterOptions{Program: p})
}

func attachTracing(_ *Telemetry, p *ebpf.Program) (link.Link, error) {
	return link.AttachTracing(link.TracingOptions{Program: p})
}

// cgroups is the root of the control groups that this process sees.
func cgroups() (string, error) {
	root, err := fs.Cgroup2()
	if errors.Is(err, fs.ErrNotMounted) {
		err = reason(err.Error())
	}
	return root, err
}

// attachSockops attaches to the root of the control groups that this process sees.
func attachSockops(_ *Telemetry, p *ebpf.Program) (link.Link, error) {
	root, err := cgroups()
	if err != nil {
		return nil, err
	}
	return link.AttachCgroup(link.CgroupOptions{Path: root, Attach: ebpf.AttachCGroupSockOps, Program: p})
}

// adopt has round trips counted of connections that are up already, and leaves nothing behind.
func adopt(t *Telemetry, p *ebpf.Program) (link.Link, error) {
	if t.links[bpf.TelemetryProgTelemetryRtt] == nil {
		return nil, reason("there is no " + telemetryRTT.name)
	}
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var done, refused int
	err = eachNetns(func() error {
		results, err := readIter(it.Open)
		for b := results; len(b) >= 4; b = b[4:] {
			if int32(binary.NativeEndian.Uint32(b)) == 0 {
				done++
			} else {
				refused++
			}
		}
		return err
	})
	if err == nil && done == 0 && refused > 0 {
		err = ErrNotSupported
	}
	return nil, err
}

// Features tells of each part of telemetry whether it was loaded, and why not.
func (t *Telemetry) Features() []FeatureSupport { return slices.Clone(t.features) }

// Options are those that telemetry was loaded with.
func (t *Telemetry) Options() TelemetryOptions { return t.options }

// Since is when telemetry was loaded, from which time on it counts.
func (t *Telemetry) Since() time.Time { return t.loaded }

// Close ends what is not pinned.
func (t *Telemetry) Close() error {
	var all []error
	for _, l := range t.links {
		all = append(all, l.Close())
	}
	for _, p := range t.programs {
		all = append(all, p.Close())
	}
	for _, m := range t.maps {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}

// probe tries a part.
func (part *telemetryPart) probe() error {
	if part.feature == telemetryRTT {
		if _, err := cgroups(); err != nil {
			return err
		}
	}
	if part.feature == telemetryOlder {
		return probeOlder()
	}
	c, err := load(bpf.LoadTelemetry, loading{programs: part.programs})
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// probeOlder has round trips counted of a connection on loopback that is older than telemetry:
// a kernel that loads the program may refuse what it does.
func probeOlder() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	t := &Telemetry{programs: make(map[string]*ebpf.Program), maps: make(map[string]*ebpf.Map), links: make(map[string]link.Link)}
	defer t.Close()
	o := TelemetryOptions{Ports: []uint16{uint16(l.Addr().(*net.TCPAddr).Port)}}
	cache := btf.NewCache()
	for _, part := range telemetryParts {
		if part.feature == telemetryRTT || part.feature == telemetryOlder {
			if err := t.load(&part, &o, nil, cache); err != nil {
				return err
			}
		}
	}
	return nil
}

// telemetryFeatures are the parts of telemetry, for Probe.
func telemetryFeatures() []*feature {
	out := make([]*feature, len(telemetryParts))
	for i := range telemetryParts {
		f := *telemetryParts[i].feature
		f.probe = telemetryParts[i].probe
		out[i] = &f
	}
	return out
}

// nameDrops gives the counters of drops the names that this kernel has for them.
func nameDrops(m *ebpf.Map, cache *btf.Cache) error {
	spec, err := cache.Kernel()
	if err != nil {
		return err
	}
	var reasons *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &reasons); err != nil {
		return err
	}
	const prefix = "SKB_DROP_REASON_"
	value := make([]byte, m.ValueSize())
	for _, v := range reasons.Values {
		if v.Value >= uint64(m.MaxEntries()) {
			continue
		}
		clear(value)
		copy(value[8:len(value)-1], strings.TrimPrefix(v.Name, prefix))
		if err := m.Put(uint32(v.Value), value); err != nil {
			return err
		}
	}
	return nil
}
