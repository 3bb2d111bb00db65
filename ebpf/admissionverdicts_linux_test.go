//go:build live

package ebpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/rds-go/rds/internal/netlab"
)

var (
	peer4, stranger4 = netip.MustParseAddr("10.99.0.7"), netip.MustParseAddr("10.99.0.8")
	peer6, stranger6 = netip.MustParseAddr("fd99::7"), netip.MustParseAddr("fd99::8")

	peers = []netip.Prefix{netip.PrefixFrom(peer4, 32), netip.PrefixFrom(peer6, 128)}
)

// runner is a program of a filter that is attached nowhere, for BPF_PROG_TEST_RUN.
type runner struct {
	t    testing.TB
	kind hookKind
	a    *Admission
	p    *ebpf.Program
}

func newRunner(t testing.TB, kind hookKind, list []netip.Prefix) *runner {
	t.Helper()
	return newRunnerOn(t, kind, true, list)
}

// newRunnerOn is a runner that expects only Ethernet headers, or any.
func newRunnerOn(t testing.TB, kind hookKind, ether bool, list []netip.Prefix) *runner {
	t.Helper()
	netlab.Root(t)
	a, p, err := newAdmission(admissionConfig{Ether: ether}, kind, nil)
	must(t, err)
	t.Cleanup(func() {
		p.Close()
		a.Close()
	})
	must(t, a.Set(list))
	return &runner{t, kind, a, p}
}

// runnerVariant is a program as it is for interfaces of Ethernet only, or of any kind.
type runnerVariant struct {
	kind  hookKind
	ether bool
}

func (v runnerVariant) String() string { return fmt.Sprintf("%s, Ethernet only %v", v.kind, v.ether) }

var runnerVariants = []runnerVariant{{hookTCX, true}, {hookTCX, false}, {hookXDP, true}, {hookXDP, false}}

// drops tells whether the program drops a frame.
func (r *runner) drops(frame []byte) bool {
	r.t.Helper()
	verdict, _, err := r.p.Test(frame)
	if err != nil {
		r.t.Fatalf("a frame of %d octets: %v", len(frame), err)
	}
	pass, drop := ^uint32(0), uint32(2) // TCX_NEXT and TCX_DROP
	if r.kind == hookXDP {
		pass, drop = 2, 1 // XDP_PASS and XDP_DROP
	}
	if verdict != pass && verdict != drop {
		r.t.Fatalf("verdict %d", verdict)
	}
	return verdict == drop
}

func TestPacketsOfStrangersAreDroppedThatBeginConnections(t *testing.T) {
	t.Parallel()
	for _, v := range runnerVariants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			kind := v.kind
			r := newRunnerOn(t, kind, v.ether, peers)
			runs, refused := 0, uint64(0)
			for _, c := range packetCases() {
				peer, stranger := peer4, stranger4
				if c.v6 {
					peer, stranger = peer6, stranger6
				}
				for _, tags := range [][]uint16{nil, {tagQ}, {tagAD}, {tagAD, tagQ}} {
					runs += 2
					if got := r.drops(ethernet(c.packet(stranger), tags...)); got != c.drop {
						t.Errorf("%s of a stranger, tags %x: dropped %v, want %v", c.name, tags, got, c.drop)
					}
					if r.drops(ethernet(c.packet(peer), tags...)) {
						t.Errorf("%s of a peer, tags %x: dropped", c.name, tags)
					}
					if c.drop {
						refused++
					}
				}
			}
			if s, err := r.a.Status(); err != nil || s.Refused != refused || s.Passed != refused {
				t.Errorf("%d passed and %d refused, want %d of each; %v", s.Passed, s.Refused, refused, err)
			}
			t.Logf("%d frames", runs)
			// Three tags and other protocols are not looked at.
			if r.drops(ethernet(packet4(stranger4, protoTCP, 0, 0, tcpSegment(16385, syn, 0)), tagAD, tagQ, tagQ)) {
				t.Error("a frame with three tags is dropped")
			}
			arp := ethernet(packet4(stranger4, protoTCP, 0, 0, tcpSegment(16385, syn, 0)))
			arp[13] = 6
			if r.drops(arp) {
				t.Error("an ARP frame is dropped")
			}
			// XDP does not know which frames are this host's.
			other := ethernet(packet4(stranger4, protoTCP, 0, 0, tcpSegment(16385, syn, 0)))
			other[5] = 1
			if dropped := r.drops(other); dropped != (kind == hookXDP) {
				t.Errorf("a frame to another host, as a bridge gets it: dropped %v", dropped)
			}
		})
	}
}

func TestTruncatedPacketsAreJudgedByWhatTheyShow(t *testing.T) {
	t.Parallel()
	s := tcpSegment(16385, syn, 4)
	for _, v := range runnerVariants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			kind := v.kind
			r := newRunnerOn(t, kind, v.ether, peers)
			for _, c := range []struct {
				name   string
				packet []byte
				needs  int // octets of the packet from which it is dropped
			}{
				{"IPv4", packet4(stranger4, protoTCP, 0, 0, s), 20 + tcpShown},
				{"IPv4 with options", packet4(stranger4, protoTCP, 10, 0, s), 60 + tcpShown},
				{"IPv4 first fragment", packet4(stranger4, protoTCP, 0, 0x2000, s), 20},
				{"IPv4 fragment at 8", packet4(stranger4, protoTCP, 0, 1, s), 20},
				{"IPv6", packet6(stranger6, protoTCP, nil, s), 40 + tcpShown},
				{"IPv6 with extensions", packet6(stranger6, protoTCP, []extension{{kind: extDst, length: 3}, {kind: extAH, length: 2}}, s), 80 + tcpShown},
				{"IPv6 first fragment", packet6(stranger6, protoTCP, []extension{{kind: extFragment, fragment: 1}, {kind: extDst}}, s), 40 + 4},
			} {
				for _, tags := range [][]uint16{nil, {tagQ}, {tagAD, tagQ}} {
					whole := ethernet(c.packet, tags...)
					from := 15
					if kind == hookTCX && len(tags) == 0 {
						// The kernel makes no skb for a test run that is shorter than its IP header.
						from = 14 + 20
						if whole[12] == 0x86 {
							from = 14 + 40
						}
					}
					for n := from; n <= len(whole); n++ {
						want := n >= 14+4*len(tags)+c.needs
						if got := r.drops(whole[:n]); got != want {
							t.Errorf("%s, tags %x, %d of %d octets: dropped %v, want %v", c.name, tags, n, len(whole), got, want)
						}
					}
				}
			}
		})
	}
}

// lookup is struct bpf_sk_lookup, the context of a program that chooses a listener. A test run
// cannot set the interface, of which admission lets loopback through: the tests with real
// connections show that.
type lookup struct {
	Cookie               uint64
	Family, Protocol     uint32
	RemoteIP4            [4]byte
	RemoteIP6            [16]byte
	RemotePort, _        uint16
	LocalIP4             [4]byte
	LocalIP6             [16]byte
	LocalPort, Interface uint32
}

// refuses tells whether the program refuses a look-up.
func (r *runner) refuses(l lookup) bool {
	r.t.Helper()
	verdict, err := r.p.Run(&ebpf.RunOptions{Context: l, Repeat: 1})
	must(r.t, err)
	return verdict == 0 // SK_DROP
}

func lookupFrom(from netip.Addr, port uint16) lookup {
	l := lookup{Family: 10, Protocol: protoTCP, RemotePort: 40000, LocalPort: uint32(port)}
	if from.Is4() {
		l.Family, l.RemoteIP4 = 2, from.As4()
	} else {
		l.RemoteIP6 = from.As16()
	}
	return l
}

func TestLookupsOfStrangersAreRefused(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hookLookup, peers)
	mapped := func(a netip.Addr) lookup {
		l := lookupFrom(a, 16385)
		l.Family, l.RemoteIP6, l.RemoteIP4 = 10, a.As16(), [4]byte{}
		return l
	}
	change := func(l lookup, f func(*lookup)) lookup { f(&l); return l }
	for _, c := range []struct {
		name   string
		l      lookup
		refuse bool
	}{
		{"IPv4 stranger to 16385", lookupFrom(stranger4, 16385), true},
		{"IPv4 stranger to 18634", lookupFrom(stranger4, 18634), true},
		{"IPv4 stranger to 22", lookupFrom(stranger4, 22), false},
		{"IPv4 peer to 16385", lookupFrom(peer4, 16385), false},
		{"IPv4 peer to 18634", lookupFrom(peer4, 18634), false},
		{"IPv6 stranger to 16385", lookupFrom(stranger6, 16385), true},
		{"IPv6 stranger to 18634", lookupFrom(stranger6, 18634), true},
		{"IPv6 stranger to 22", lookupFrom(stranger6, 22), false},
		{"IPv6 peer to 16385", lookupFrom(peer6, 16385), false},
		{"mapped stranger", mapped(stranger4), true},
		{"mapped peer", mapped(peer4), false},
		{"UDP of a stranger", change(lookupFrom(stranger4, 16385), func(l *lookup) { l.Protocol = protoUDP }), false},
	} {
		if got := r.refuses(c.l); got != c.refuse {
			t.Errorf("%s: refused %v, want %v", c.name, got, c.refuse)
		}
	}
	counts, err := r.a.Counters()
	if err != nil || len(counts) != 2 || counts[stranger4].Refused != 3 || counts[stranger6].Refused != 2 {
		t.Errorf("counters %v, %v", counts, err)
	}
}

func TestListMatchesByTheLongestPrefixOfTheSameFamily(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hookLookup, nil)
	if r.refuses(lookupFrom(stranger4, 16385)) || r.refuses(lookupFrom(stranger6, 16385)) {
		t.Error("an empty list refuses somebody")
	}
	for _, c := range []struct {
		list       string
		in, notIn  string
		normalized string
	}{
		{"10.1.2.3/32", "10.1.2.3", "10.1.2.2", "10.1.2.3/32"},
		{"10.1.2.3/24", "10.1.2.255", "10.1.3.0", "10.1.2.0/24"},
		{"10.1.2.3/9", "10.127.0.1", "10.128.0.1", "10.0.0.0/9"},
		{"0.0.0.0/0", "192.0.2.1", "fd00::1", "0.0.0.0/0"},
		{"::/0", "fd00::1", "192.0.2.1", "::/0"},
		{"::ffff:10.0.0.0/104", "10.200.0.1", "11.0.0.1", "10.0.0.0/8"},
		{"fd99::1/128", "fd99::1", "fd99::2", "fd99::1/128"},
		{"fd99::1/63", "fd99:0:0:1::1", "fd99:0:0:2::1", "fd99::/63"},
	} {
		must(t, r.a.Set([]netip.Prefix{netip.MustParsePrefix(c.list)}))
		if r.refuses(lookupFrom(netip.MustParseAddr(c.in), 16385)) {
			t.Errorf("%s refuses %s", c.list, c.in)
		}
		if !r.refuses(lookupFrom(netip.MustParseAddr(c.notIn), 16385)) {
			t.Errorf("%s lets %s through", c.list, c.notIn)
		}
		if got, err := r.a.Allow(); err != nil || fmt.Sprint(got) != "["+c.normalized+"]" {
			t.Errorf("%s: list %v, %v", c.list, got, err)
		}
	}
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/90")} {
		if err := r.a.Set([]netip.Prefix{bad}); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if err := r.a.Set(make([]netip.Prefix, MaxPrefixes+1)); err == nil {
		t.Error("a list that is too long is taken")
	}
	if err := r.a.Set(nil); err != nil || r.refuses(lookupFrom(stranger4, 16385)) {
		t.Error("after the empty list somebody is refused:", err)
	}
}

func TestCountersForgetTheOldestStrangers(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hookLookup, peers)
	const n = 20000
	for i := range uint32(n) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 192<<24|i)
		r.refuses(lookupFrom(netip.AddrFrom4(a), 16385))
	}
	counts, err := r.a.Counters()
	if err != nil || len(counts) > 4096 || len(counts) < 1000 {
		t.Errorf("%d strangers are known, %v", len(counts), err)
	}
	if s, err := r.a.Status(); err != nil || s.Refused != n {
		t.Errorf("%d refused, %v", s.Refused, err)
	}
}
