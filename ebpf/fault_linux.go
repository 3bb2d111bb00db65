package ebpf

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/internal/netlink"
)

// Fault makes faults for tests: it drops, duplicates, corrupts and delays packets of TCP
// connections that go through one interface, and aborts connections. Each fault ends by
// itself, and all end with Close or with the process, also if that is killed: nothing is
// pinned. The methods may be called at the same time.
type Fault struct {
	o        FaultOptions
	index    int // index of the interface
	loopback bool
	objects  *ebpf.Collection // nil without an interface
	links    []link.Link

	mu    sync.Mutex                // guards rules
	rules [MaxFaultRules]*FaultRule // by their places in the kernel; nil: free
}

// Kinds of a rule: enum kind of fault.bpf.c.
const (
	kindDrop = 1 + iota
	kindDuplicate
	kindCorrupt
	kindDelay
)

const (
	ruleIn     = 1 // DIR_IN of fault.bpf.c
	ruleOut    = 2 // DIR_OUT
	ruleLocal  = 1 // RULE_LOCAL
	ruleRemote = 2 // RULE_REMOTE
	ruleEither = 4 // RULE_EITHER
)

// kernelRule is struct rule of fault.bpf.c.
type kernelRule struct {
	Until, Count, Rate, Delay uint64
	Kind, Direction, Flags    uint32
	Local, Remote             [16]byte
	LocalPort, RemotePort     uint16
	Ports                     [MaxPorts]uint16
}

// FaultRule is a fault that is being made. It holds a place of its Fault until Stop.
type FaultRule struct {
	f     *Fault
	place uint32
	rule  kernelRule

	mu     sync.Mutex  // guards the fields below
	over   bool        // the rule is out of the kernel
	counts FaultCounts // if over
}

// NewFault loads the programs and attaches them to the interface, with no fault in them.
// It takes CAP_BPF and CAP_NET_ADMIN, with Netns CAP_SYS_ADMIN.
func NewFault(o FaultOptions) (*Fault, error) {
	f := &Fault{o: o}
	if o.Interface == "" {
		return f, nil
	}
	if err := inNetns(o.Netns, f.attach); err != nil {
		f.Close()
		return nil, faultPackets.err(err)
	}
	return f, nil
}

func (f *Fault) attach() error {
	i, err := net.InterfaceByName(f.o.Interface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", f.o.Interface, err)
	}
	f.index, f.loopback = i.Index, i.Flags&net.FlagLoopback != 0
	l2, err := linkHeader(f.o.Interface)
	if err != nil {
		return err
	}
	if f.objects, err = loadFault(l2); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		at   ebpf.AttachType
	}{{bpf.FaultProgFaultIn, ebpf.AttachTCXIngress}, {bpf.FaultProgFaultOut, ebpf.AttachTCXEgress}} {
		l, err := link.AttachTCX(link.TCXOptions{Interface: f.index, Program: f.objects.Programs[p.name], Attach: p.at})
		if err != nil {
			return err
		}
		f.links = append(f.links, l)
	}
	return nil
}

// loadFault loads the programs for an interface whose link-layer header has l2 octets.
func loadFault(l2 uint32) (*ebpf.Collection, error) {
	return load(bpf.LoadFault, loading{set: map[string]any{
		bpf.FaultVarFaultL2: l2, bpf.FaultVarFaultMagic: [2]uint32{rand.Uint32() | 1, rand.Uint32()},
	}})
}

// linkHeader is the length of the link-layer header of an interface.
func linkHeader(name string) (uint32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFHWADDR, r)
	}
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", name, err)
	}
	switch kind := r.Uint16(); kind {
	case unix.ARPHRD_ETHER, unix.ARPHRD_LOOPBACK:
		return 14, nil
	case unix.ARPHRD_NONE, unix.ARPHRD_RAWIP:
		return 0, nil
	default:
		return 0, fmt.Errorf("%w: interface %s has link-layer headers of another kind (%d) than Ethernet", ErrNotSupported, name, kind)
	}
}

// Drop drops packets. At egress the sender is not told: its TCP finds out as it does of a
// loss on the way.
func (f *Fault) Drop(m FaultMatch, l FaultLimits) (*FaultRule, error) {
	return f.add(kindDrop, m, l, 0)
}

// Duplicate sends packets twice.
func (f *Fault) Duplicate(m FaultMatch, l FaultLimits) (*FaultRule, error) {
	return f.add(kindDuplicate, m, l, 0)
}

// Corrupt changes one bit of the TCP payload of packets, at a random place, and leaves the
// checksum as it is. Between hosts of one machine (loopback, veth) no checksum is computed, so
// the changed data are delivered. A network card that computes checksums does so for what is
// changed on the way out. The sender keeps its own data: what it sends again is as it was.
func (f *Fault) Corrupt(m FaultMatch, l FaultLimits) (*FaultRule, error) {
	return f.add(kindCorrupt, m, l, 0)
}

// Blackhole drops all packets for a time, at most MaxFaultTime; 0 is DefaultFaultTime.
func (f *Fault) Blackhole(m FaultMatch, d time.Duration) (*FaultRule, error) {
	return f.add(kindDrop, m, FaultLimits{For: d}, 0)
}

// Delay sends outgoing packets later by a time of at most MaxFaultDelay. Without a Rate of 1 they
// overtake each other. Packets wait in the qdisc fq, which the interface must have as its
// root, or below mq; else the error Is ErrNotSupported.
func (f *Fault) Delay(m FaultMatch, l FaultLimits, by time.Duration) (*FaultRule, error) {
	if by <= 0 || by > MaxFaultDelay {
		return nil, fmt.Errorf("delay of %v: above 0 and at most %v", by, MaxFaultDelay)
	}
	if m.Direction == FaultIn {
		return nil, errors.New("delay of packets that come in: only those that go out can be delayed")
	}
	m.Direction = FaultOut
	if err := inNetns(f.o.Netns, f.queues); err != nil {
		return nil, faultDelay.err(err)
	}
	return f.add(kindDelay, m, l, by)
}

// queues returns an error if outgoing packets do not go through fq.
func (f *Fault) queues() error {
	kinds, err := netlink.Qdiscs(f.index)
	if err != nil {
		return err
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "clsact" || k == "ingress" || k == "mq" })
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return k != "fq" }) {
		return nil
	}
	has := strings.Join(slices.Compact(kinds), ", ")
	if has == "" {
		has = "noqueue"
	}
	return fmt.Errorf("%w as it is set up: interface %s has the qdisc %s, and only fq delays packets (tc qdisc replace dev %s root fq)",
		ErrNotSupported, f.o.Interface, has, f.o.Interface)
}

// add puts a rule into the kernel.
func (f *Fault) add(kind uint32, m FaultMatch, l FaultLimits, delay time.Duration) (*FaultRule, error) {
	if f.objects == nil {
		return nil, errors.New("faults of packets: no interface was given")
	}
	r, err := newRule(kind, m, l, delay, f.loopback)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	place := slices.Index(f.rules[:], nil)
	if place < 0 {
		return nil, fmt.Errorf("%d faults at the same time: at most so many, and Stop frees their places", MaxFaultRules)
	}
	rule := &FaultRule{f: f, place: uint32(place), rule: *r}
	inactive := *r
	inactive.Kind = 0
	// The kernel's copy of a value is not atomic: programs may see one that is half written.
	// So the kind, which makes it a rule, is written when all else is there.
	for _, put := range []struct {
		m *ebpf.Map
		v any
	}{{f.counts(), &FaultCounts{}}, {f.table(), &inactive}, {f.table(), r}} {
		if err := put.m.Put(rule.place, put.v); err != nil {
			return nil, faultPackets.err(err)
		}
	}
	f.rules[place] = rule
	return rule, nil
}

func (f *Fault) table() *ebpf.Map  { return f.objects.Maps[bpf.FaultMapFaultRules] }
func (f *Fault) counts() *ebpf.Map { return f.objects.Maps[bpf.FaultMapFaultCounts] }

// newRule makes the kernel's form of a rule that begins now.
func newRule(kind uint32, m FaultMatch, l FaultLimits, delay time.Duration, loopback bool) (*kernelRule, error) {
	if l.Rate == 0 {
		l.Rate = 1
	}
	if l.For == 0 {
		l.For = DefaultFaultTime
	}
	ports := m.Ports
	if ports == nil && m.Local.Port() == 0 && m.Remote.Port() == 0 {
		ports = defaultPorts
	}
	switch {
	case !(l.Rate > 0 && l.Rate <= 1):
		return nil, fmt.Errorf("rate %v: above 0 and at most 1", l.Rate)
	case l.For < 0 || l.For > MaxFaultTime:
		return nil, fmt.Errorf("time %v: above 0 and at most %v", l.For, MaxFaultTime)
	case len(ports) > MaxPorts || slices.Contains(ports, 0):
		return nil, fmt.Errorf("ports %v: at most %d, and not 0", ports, MaxPorts)
	}
	r := &kernelRule{
		Until: monotonic() + uint64(l.For), Count: l.Count, Rate: uint64(math.Ceil(l.Rate * (1 << 32))), Delay: uint64(delay),
		Kind: kind, LocalPort: m.Local.Port(), RemotePort: m.Remote.Port(),
	}
	switch {
	case m.Direction == FaultIn:
		r.Direction = ruleIn
	case m.Direction == FaultOut || loopback:
		r.Direction = ruleOut
	default:
		r.Direction = ruleIn | ruleOut
	}
	if loopback {
		r.Flags |= ruleEither
	}
	end := func(a netip.Addr, to *[16]byte, flag uint32) {
		if a.IsValid() {
			*to = a.As16()
			r.Flags |= flag
		}
	}
	end(m.Local.Addr(), &r.Local, ruleLocal)
	end(m.Remote.Addr(), &r.Remote, ruleRemote)
	copy(r.Ports[:], ports)
	return r, nil
}

// monotonic is the kernel's time by which rules end.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // does not fail
	return uint64(t.Nano())
}

// Counts are the counts so far, or of the whole rule after Stop.
func (r *FaultRule) Counts() (FaultCounts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countsLocked()
}

func (r *FaultRule) countsLocked() (FaultCounts, error) {
	if r.over {
		return r.counts, nil
	}
	var c FaultCounts
	err := r.f.counts().Lookup(r.place, &c)
	return c, faultPackets.err(err)
}

// Ended is whether the fault is over, by its limits or by Stop.
func (r *FaultRule) Ended() bool {
	c, err := r.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over || err != nil || monotonic() >= r.rule.Until || r.rule.Count > 0 && c.Hit >= r.rule.Count
}

// Stop ends the fault, if its limits have not, and returns its counts.
func (r *FaultRule) Stop() (FaultCounts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return r.counts, nil
	}
	if err := r.f.table().Put(r.place, &kernelRule{}); err != nil {
		return FaultCounts{}, faultPackets.err(err)
	}
	var err error
	r.counts, err = r.countsLocked()
	r.over = true
	r.f.mu.Lock()
	r.f.rules[r.place] = nil
	r.f.mu.Unlock()
	return r.counts, err
}

// Close ends all faults and takes the programs out of the kernel. Counts of rules that were
// not stopped before are those at this time.
func (f *Fault) Close() error {
	f.mu.Lock()
	rules := f.rules
	f.mu.Unlock()
	var errs []error
	for _, r := range rules {
		if r != nil {
			_, err := r.Stop()
			errs = append(errs, err)
		}
	}
	for _, l := range f.links {
		errs = append(errs, l.Close())
	}
	f.links = nil
	if f.objects != nil {
		f.objects.Close()
	}
	return errors.Join(errs...)
}

// probeFault loads the programs and asks whether they could be attached, by an interface
// that there is not.
func probeFault() error {
	objects, err := loadFault(14)
	if err != nil {
		return err
	}
	defer objects.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: objects.Programs[bpf.FaultProgFaultIn], Attach: ebpf.AttachTCXIngress})
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
