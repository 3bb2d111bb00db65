//go:build live

package ebpf

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/internal/netlab"
)

// What the programs return: the packet goes on, it is dropped on the way in, and it is
// redirected to nowhere on the way out.
const (
	goesOn  = math.MaxUint32
	dropIn  = 2
	dropOut = 7
)

// faultPrograms is a Fault whose programs are attached to nothing.
func faultPrograms(t *testing.T, loopback bool) *Fault {
	t.Helper()
	netlab.Root(t)
	f := &Fault{loopback: loopback}
	var err error
	f.objects, err = loadFault(14)
	if err := faultPackets.err(err); errors.Is(err, ErrNotSupported) || errors.Is(err, ErrPermission) {
		t.Skipf("needs a kernel that loads the programs, and the right to: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// skBuff is the beginning of struct __sk_buff of linux/bpf.h, up to gso_segs and what follows.
type skBuff struct {
	Len, PktType, Mark, QueueMapping, Protocol, VlanPresent, VlanTCI, VlanProto, Priority, IngressIfindex, Ifindex, TCIndex uint32
	CB                                                                                                                      [5]uint32
	Hash, TCClassid, Data, DataEnd, NAPI, Family, RemoteIP4, LocalIP4                                                       uint32
	RemoteIP6, LocalIP6                                                                                                     [4]uint32
	RemotePort, LocalPort, DataMeta                                                                                         uint32
	FlowKeys, Tstamp                                                                                                        uint64
	WireLen, GSOSegs                                                                                                        uint32
	Sk                                                                                                                      uint64
	GSOSize                                                                                                                 uint32
	TstampType                                                                                                              uint8
	_                                                                                                                       [3]uint8
	HWTstamp                                                                                                                uint64
}

// try runs a program on a packet so many times, and returns what it returned the last time
// and the packet after that.
func (f *Fault) try(t *testing.T, program string, packet []byte, times int, in *skBuff) (verdict uint32, after []byte, out skBuff) {
	t.Helper()
	o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Repeat: uint32(times)}
	if in != nil {
		o.Context, o.ContextOut = in, &out
	}
	verdict, err := f.objects.Programs[program].Run(&o)
	if err != nil {
		t.Fatalf("%d octets: %v", len(packet), err)
	}
	return verdict, o.DataOut, out
}

// frame is a packet to be built: Ethernet, VLAN tags, IP, TCP.
type frame struct {
	src, dst string // with ports
	tags     []uint16
	options  int     // octets of IP options
	headers  []uint8 // extension headers of IPv6
	fragment uint16  // offset of the fragment, in units of 8 octets
	more     bool    // more fragments follow
	protocol uint8   // 0: TCP
	payload  string  // payload of TCP
	padding  int     // octets behind the IP packet
	cut      int     // octets that are missing at the end
	doff     uint8   // length of the TCP header, in words of 4 octets; 0: 5 words
	noLength bool    // the length of IP is 0, as of a large burst
}

func (p frame) bytes() []byte {
	be := binary.BigEndian
	src, dst := netip.MustParseAddrPort(p.src), netip.MustParseAddrPort(p.dst)
	b := append(make([]byte, 0, 2048), "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"...)
	for _, tag := range p.tags {
		b = be.AppendUint16(b, tag)
		b = be.AppendUint16(b, 7)
	}
	protocol, doff := p.protocol, p.doff
	if protocol == 0 {
		protocol = 6
	}
	if doff == 0 {
		doff = 5
	}
	tcp := be.AppendUint16(nil, src.Port())
	tcp = be.AppendUint16(tcp, dst.Port())
	tcp = append(tcp, 0, 0, 0, 1, 0, 0, 0, 1, doff<<4, 0x10, 255, 255, 0, 0, 0, 0)
	if doff > 5 {
		tcp = append(tcp, make([]byte, 4*int(doff-5))...)
	}
	tcp = append(tcp, p.payload...)
	fragment := p.fragment
	if src.Addr().Is4() {
		b = be.AppendUint16(b, 0x0800)
		length := 20 + p.options + len(tcp)
		if p.more {
			fragment |= 0x2000
		}
		if p.noLength {
			length = 0
		}
		b = append(b, 0x40|uint8(5+p.options/4), 0)
		b = be.AppendUint16(b, uint16(length))
		b = append(b, 0, 1)
		b = be.AppendUint16(b, fragment)
		b = append(b, 64, protocol, 0, 0)
		b = append(b, src.Addr().AsSlice()...)
		b = append(b, dst.Addr().AsSlice()...)
		b = append(b, make([]byte, p.options)...)
	} else {
		b = be.AppendUint16(b, 0x86dd)
		var ext []byte
		next := protocol
		for i := len(p.headers) - 1; i >= 0; i-- {
			h := []byte{next, 0, 0, 0, 0, 0, 0, 0}
			if p.headers[i] == 44 {
				fragment = p.fragment << 3
				if p.more {
					fragment |= 1
				}
				be.PutUint16(h[2:], fragment)
			} else if i == 0 { // the first is longer than it has to be
				h = append(h, make([]byte, 16)...)
				h[1] = 2
			}
			ext = append(h, ext...)
			next = p.headers[i]
		}
		b = append(b, 0x60, 0, 0, 0)
		b = be.AppendUint16(b, uint16(len(ext)+len(tcp)))
		b = append(b, next, 64)
		b = append(b, src.Addr().AsSlice()...)
		b = append(b, dst.Addr().AsSlice()...)
		b = append(b, ext...)
	}
	b = append(b, tcp...)
	b = append(b, make([]byte, p.padding)...)
	return b[:len(b)-p.cut]
}

const (
	here4, there4 = "10.0.0.1:16385", "10.0.0.2:40000"
	here6, there6 = "[fd00::1]:40000", "[fd00::2]:18634"
)

func TestFaultMatchesTCPOfEachForm(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	for _, c := range []struct {
		name string
		p    frame
		hit  bool
	}{
		{"IPv4", frame{src: here4, dst: there4}, true},
		{"IPv4, other way", frame{src: there4, dst: here4}, true},
		{"IPv6", frame{src: here6, dst: there6}, true},
		{"mapped", frame{src: "[::ffff:10.0.0.1]:16385", dst: "[::ffff:10.0.0.2]:1"}, true},
		{"other ports", frame{src: "10.0.0.1:16384", dst: "10.0.0.2:18635"}, false},
		{"UDP", frame{src: here4, dst: there4, protocol: 17}, false},
		{"UDP on IPv6", frame{src: here6, dst: there6, protocol: 17}, false},
		{"VLAN", frame{src: here4, dst: there4, tags: []uint16{0x8100}}, true},
		{"VLAN in VLAN", frame{src: here6, dst: there6, tags: []uint16{0x88a8, 0x8100}}, true},
		{"three VLANs", frame{src: here4, dst: there4, tags: []uint16{0x88a8, 0x8100, 0x8100}}, false},
		{"options of IPv4", frame{src: here4, dst: there4, options: 40}, true},
		{"options of TCP", frame{src: here4, dst: there4, doff: 15}, true},
		{"first fragment", frame{src: here4, dst: there4, more: true}, true},
		{"later fragment", frame{src: here4, dst: there4, fragment: 8}, false},
		{"first fragment of IPv6", frame{src: here6, dst: there6, headers: []uint8{44}, more: true}, true},
		{"later fragment of IPv6", frame{src: here6, dst: there6, headers: []uint8{44}, fragment: 8}, false},
		{"extension headers", frame{src: here6, dst: there6, headers: []uint8{0, 43, 60, 44}}, true},
		{"authentication header", frame{src: here6, dst: there6, headers: []uint8{51}}, false},
		{"seven extension headers", frame{src: here6, dst: there6, headers: []uint8{0, 60, 60, 60, 60, 60, 60}}, false},
		{"TCP header cut", frame{src: here4, dst: there4, cut: 1}, false},
		{"TCP header cut in IPv6", frame{src: here6, dst: there6, cut: 20}, false},
		// The kernel does not run programs on a packet of IP whose header is cut, unless VLAN hides it.
		{"IPv4 header cut", frame{src: here4, dst: there4, tags: []uint16{0x8100}, cut: 21}, false},
		{"IPv6 header cut", frame{src: here6, dst: there6, tags: []uint16{0x8100}, cut: 21}, false},
		{"VLAN cut", frame{src: here4, dst: there4, tags: []uint16{0x8100}, cut: 41}, false},
		{"extension header cut", frame{src: here6, dst: there6, headers: []uint8{0}, cut: 25}, false},
		{"TCP header too short", frame{src: here4, dst: there4, doff: 4}, false},
	} {
		for _, way := range []struct {
			program string
			drop    uint32
			d       FaultDirection
		}{{bpf.FaultProgFaultIn, dropIn, FaultIn}, {bpf.FaultProgFaultOut, dropOut, FaultOut}} {
			both := mustRule(t)(f.Drop(FaultMatch{Direction: FaultBoth}, FaultLimits{}))
			verdict, _, _ := f.try(t, way.program, c.p.bytes(), 1, nil)
			counts, _ := both.Stop()
			want := FaultCounts{}
			if c.hit {
				want = FaultCounts{Seen: 1, Hit: 1, Bytes: uint64(len(c.p.bytes()))}
			}
			if (verdict == way.drop) != c.hit || !c.hit && verdict != goesOn || counts != want {
				t.Errorf("%s, %s: verdict %#x, %+v", c.name, way.program, verdict, counts)
			}
			other := mustRule(t)(f.Drop(FaultMatch{Direction: FaultIn + FaultOut - way.d}, FaultLimits{}))
			verdict, _, _ = f.try(t, way.program, c.p.bytes(), 1, nil)
			if counts, _ := other.Stop(); verdict != goesOn || counts != (FaultCounts{}) {
				t.Errorf("%s, %s: verdict %#x of a rule for the other direction, %+v", c.name, way.program, verdict, counts)
			}
		}
	}
}

func mustRule(t *testing.T) func(*FaultRule, error) *FaultRule {
	return func(r *FaultRule, err error) *FaultRule {
		t.Helper()
		must(t, err)
		return r
	}
}

// The packet 10.0.0.1:16385 > 10.0.0.2:40000 goes out, and comes in from the other host's
// point of view.
func TestFaultMatchesEnds(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddrPort(here4), netip.MustParseAddrPort(there4)
	addr := func(p netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(p.Addr(), 0) }
	port := func(p netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, p.Port()) }
	mapped := netip.AddrPortFrom(netip.AddrFrom16(b.Addr().As16()), 0)
	for _, loopback := range []bool{false, true} {
		f := faultPrograms(t, loopback)
		for _, c := range []struct {
			m       FaultMatch
			out, in bool
		}{
			{FaultMatch{Local: a}, true, false},
			{FaultMatch{Local: b}, false, true},
			{FaultMatch{Remote: b}, true, false},
			{FaultMatch{Remote: mapped}, true, false},
			{FaultMatch{Local: a, Remote: b}, true, false},
			{FaultMatch{Local: b, Remote: a}, false, true},
			{FaultMatch{Local: addr(a), Remote: port(b)}, true, false},
			{FaultMatch{Local: port(b)}, false, true},
			{FaultMatch{Local: port(b), Ports: []uint16{18634}}, false, false},
			{FaultMatch{Local: a, Remote: a}, false, false},
			{FaultMatch{Ports: []uint16{1, 2, 3, 4, 5, 6, 7, 40000}}, true, true},
			{FaultMatch{Ports: []uint16{40001}}, false, false},
			{FaultMatch{Ports: []uint16{}, Remote: netip.MustParseAddrPort("[fd00::2]:40000")}, false, false},
		} {
			if loopback { // either end is local there, and a packet that came in has gone out
				c.out, c.in = c.out || c.in, false
			}
			r := mustRule(t)(f.Drop(c.m, FaultLimits{}))
			out, _, _ := f.try(t, bpf.FaultProgFaultOut, frame{src: here4, dst: there4}.bytes(), 1, nil)
			in, _, _ := f.try(t, bpf.FaultProgFaultIn, frame{src: here4, dst: there4}.bytes(), 1, nil)
			if (out == dropOut) != c.out || (in == dropIn) != c.in {
				t.Errorf("loopback %v, %+v: out %#x, in %#x", loopback, c.m, out, in)
			}
			if _, err := r.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFaultEndsByCountAndTime(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	p := frame{src: here4, dst: there4, payload: "payload"}.bytes()
	r := mustRule(t)(f.Drop(FaultMatch{}, FaultLimits{Count: 1000}))
	f.try(t, bpf.FaultProgFaultOut, p, 999, nil)
	if r.Ended() {
		t.Error("ended before its count")
	}
	f.try(t, bpf.FaultProgFaultOut, p, 500, nil)
	want := FaultCounts{Seen: 1000, Hit: 1000, Bytes: 1000 * uint64(len(p))}
	if c, err := r.Counts(); c != want || err != nil || !r.Ended() {
		t.Errorf("%+v, %v; ended %v", c, err, r.Ended())
	}
	// A burst counts as its packets, and the last one may exceed the count.
	burst := mustRule(t)(f.Drop(FaultMatch{Remote: netip.MustParseAddrPort(there4)}, FaultLimits{Count: 100}))
	segs := &skBuff{GSOSegs: 44, GSOSize: 1448}
	f.try(t, bpf.FaultProgFaultOut, p, 10, segs)
	if c, err := burst.Stop(); c.Seen != 132 || c.Hit != 132 || err != nil {
		t.Errorf("bursts: %+v, %v", c, err)
	}
	// By its time.
	short := mustRule(t)(f.Drop(FaultMatch{}, FaultLimits{For: time.Nanosecond}))
	if v, _, _ := f.try(t, bpf.FaultProgFaultOut, p, 1, nil); v != goesOn || !short.Ended() {
		t.Errorf("verdict %#x behind its time", v)
	}
	if c, err := short.Stop(); c != (FaultCounts{}) || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := r.Stop(); c != want || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if again, err := r.Stop(); again != want || err != nil {
		t.Errorf("%+v, %v", again, err)
	}
}

// Ten per cent of 100,000 packets are 10,000 within five standard deviations (95 each).
func TestFaultRateIsThatOfPackets(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	const n = 100_000
	for _, c := range []struct {
		rate float64
		make func(FaultMatch, FaultLimits) (*FaultRule, error)
		segs uint32
		want float64 // probability that a run hits
	}{
		{0.1, f.Drop, 0, 0.1},
		{0.001, f.Drop, 0, 0.001},
		{0.1, f.Drop, 10, 0.1},
		{0.01, f.Corrupt, 0, 0.01},
		{0.01, f.Corrupt, 10, 0.1},
	} {
		r := mustRule(t)(c.make(FaultMatch{}, FaultLimits{Rate: c.rate}))
		var in *skBuff
		if c.segs > 0 {
			in = &skBuff{GSOSegs: c.segs, GSOSize: 1448}
		}
		f.try(t, bpf.FaultProgFaultOut, frame{src: here4, dst: there4, payload: "payload"}.bytes(), n, in)
		got, err := r.Stop()
		must(t, err)
		runs := float64(got.Bytes) / float64(len(frame{src: here4, dst: there4, payload: "payload"}.bytes()))
		sigma := math.Sqrt(n * c.want * (1 - c.want))
		t.Logf("rate %v of bursts of %d: %v runs hit, sigma %.0f, %+v", c.rate, c.segs, runs, sigma, got)
		if math.Abs(runs-n*c.want) > 5*sigma || got.Seen != n*uint64(max(c.segs, 1)) {
			t.Errorf("rate %v of bursts of %d: %v hits of %d, %+v", c.rate, c.segs, runs, n, got)
		}
	}
}

// One bit of the payload changes, at each place of it sooner or later, and nothing else.
func TestCorruptChangesOneBitOfThePayload(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	for _, p := range []frame{
		{src: here4, dst: there4, payload: "pay", padding: 9},
		{src: here4, dst: there4, payload: "pay", noLength: true, doff: 8},
		{src: here6, dst: there6, payload: "pay", tags: []uint16{0x8100}, headers: []uint8{0, 60}, padding: 3},
	} {
		before := p.bytes()
		first := len(before) - p.padding - len(p.payload)
		r := mustRule(t)(f.Corrupt(FaultMatch{}, FaultLimits{}))
		seen := make(map[int]bool)
		const runs = 1000 // the chance that one of 24 bits is never changed is 10^-17
		for range runs {
			verdict, after, _ := f.try(t, bpf.FaultProgFaultIn, before, 1, nil)
			var changed []int
			for i := range before {
				for bit := range 8 {
					if (before[i]^after[i])>>bit&1 == 1 {
						changed = append(changed, 8*(i-first)+bit)
					}
				}
			}
			if verdict != goesOn || len(changed) != 1 || changed[0] < 0 || changed[0] >= 24 {
				t.Fatalf("%+v: verdict %#x, bits changed: %v", p, verdict, changed)
			}
			seen[changed[0]] = true
		}
		if c, err := r.Stop(); len(seen) != 24 || c.Hit != runs || err != nil {
			t.Errorf("%+v: %d bits, %+v, %v", p, len(seen), c, err)
		}
	}
	r := mustRule(t)(f.Corrupt(FaultMatch{}, FaultLimits{}))
	f.try(t, bpf.FaultProgFaultIn, frame{src: here4, dst: there4, padding: 6}.bytes(), 1, nil)
	if c, err := r.Stop(); c != (FaultCounts{}) || err != nil {
		t.Errorf("without a payload: %+v, %v", c, err)
	}
}

// The program asks for the packet to go later, than now or than TCP's pacing has asked for.
func TestDelayIsAddedToTheTimeOfThePacket(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	const by = 50 * time.Millisecond
	r, err := f.add(kindDelay, FaultMatch{Direction: FaultOut}, FaultLimits{}, by)
	must(t, err)
	p := frame{src: here4, dst: there4}.bytes()
	for _, paced := range []time.Duration{-time.Hour, 0, time.Hour} {
		begin := monotonic() + uint64(paced)
		earliest := max(begin, monotonic()) + uint64(by)
		_, _, out := f.try(t, bpf.FaultProgFaultOut, p, 1, &skBuff{Tstamp: begin})
		if latest := max(begin, monotonic()) + uint64(by); out.Tstamp < earliest || out.Tstamp > latest {
			t.Errorf("paced by %v: %v, want from %v to %v", paced, out.Tstamp, earliest, latest)
		}
	}
	if c, err := r.Stop(); c.Hit != 3 || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// The first rule that hits decides, and places are free again after Stop.
func TestFaultRulesAreTriedInOrder(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	var rules []*FaultRule
	for range MaxFaultRules {
		rules = append(rules, mustRule(t)(f.Drop(FaultMatch{}, FaultLimits{Count: 1})))
	}
	if _, err := f.Drop(FaultMatch{}, FaultLimits{}); err == nil {
		t.Error("one rule too many")
	}
	f.try(t, bpf.FaultProgFaultOut, frame{src: here4, dst: there4}.bytes(), MaxFaultRules+5, nil)
	for i, r := range rules {
		if c, err := r.Stop(); c.Hit != 1 || c.Seen != 1 || err != nil {
			t.Errorf("rule %d: %+v, %v", i, c, err)
		}
	}
	mustRule(t)(f.Drop(FaultMatch{}, FaultLimits{}))
}

func TestFaultRefusesWhatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	f := faultPrograms(t, false)
	for _, l := range []FaultLimits{{Rate: -0.1}, {Rate: 1.1}, {Rate: math.NaN()}, {For: -1}, {For: MaxFaultTime + 1}} {
		if _, err := f.Drop(FaultMatch{}, l); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
	for _, ports := range [][]uint16{{0}, make([]uint16, 9)} {
		if _, err := f.Drop(FaultMatch{Ports: ports}, FaultLimits{}); err == nil {
			t.Errorf("ports %v are accepted", ports)
		}
	}
	if _, err := f.Delay(FaultMatch{Direction: FaultIn}, FaultLimits{}, time.Second); err == nil {
		t.Error("a delay of packets that come in is accepted")
	}
	if _, err := f.Delay(FaultMatch{}, FaultLimits{}, 11*time.Second); err == nil {
		t.Error("a delay of 11 s is accepted")
	}
	if _, err := (&Fault{}).Drop(FaultMatch{}, FaultLimits{}); err == nil {
		t.Error("a fault of packets without an interface")
	}
}
