//go:build live

package ebpf

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/rds-go/rds/internal/netlab"
)

// longList is a list of n prefixes besides others: /32 of IPv4 from a network on, which keeps
// strangers 10.99.0.0/16 and peers out.
func longList(n int, network byte, others ...netip.Prefix) []netip.Prefix {
	list := make([]netip.Prefix, 0, n)
	for i := range uint32(n - len(others)) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(network)<<24|i)
		list = append(list, netip.PrefixFrom(netip.AddrFrom4(a), 32))
	}
	return append(list, others...)
}

// judge is an allow-list with a program that can be tested, and that judges connections of
// the site, too.
func judge(t *testing.T, s *site, list []netip.Prefix) (*Admission, *ebpf.Program) {
	t.Helper()
	a, program, err := newAdmission(admissionConfig{Ether: true}, hookTCX, nil)
	must(t, err)
	t.Cleanup(func() { a.Close(); program.Close() })
	must(t, a.Set(list))
	h := hook{place: place{Kind: hookTCX, Index: 2, Name: "eth0"}}
	if h.Index, err = s.interfaceIndex("eth0"); err != nil {
		t.Fatal(err)
	}
	l, err := h.attach(s.here.Netns(), program)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return a, program
}

// Two lists of 10,000 take turns. A peer is on both, a stranger on neither.
func TestListReplacedUnderLoadGivesNoWrongVerdict(t *testing.T) {
	t.Parallel()
	const n, replacements = 10000, 10
	s := newSite(t)
	lists := [][]netip.Prefix{longList(n, 20, append(peers, s.peers()...)...), longList(n, 30, append(peers, s.peers()...)...)}
	a, program := judge(t, s, lists[0])
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var workers sync.WaitGroup
	var verdicts, connects atomic.Int64
	wrong := func(what string, packet []byte, want uint32) {
		for ctx.Err() == nil {
			got, _, err := program.Test(packet)
			if err != nil || got != want {
				t.Errorf("%s: verdict %d, want %d; %v", what, got, want, err)
				stop()
			}
			verdicts.Add(1)
		}
	}
	const pass, drop = ^uint32(0), 2
	segment := tcpSegment(16385, syn, 0)
	for _, c := range []struct {
		what   string
		packet []byte
		want   uint32
	}{
		{"IPv4 peer", packet4(peer4, protoTCP, 0, 0, segment), pass},
		{"IPv6 peer", packet6(peer6, protoTCP, nil, segment), pass},
		{"IPv4 stranger", packet4(stranger4, protoTCP, 0, 0, segment), drop},
		{"IPv6 stranger", packet6(stranger6, protoTCP, nil, segment), drop},
	} {
		workers.Go(func() { wrong(c.what, ethernet(c.packet), c.want) })
	}
	workers.Go(func() {
		for ctx.Err() == nil {
			s.connects("peer", s.there, s.there.IP4, s.here.IP4)
			connects.Add(1)
		}
	})
	workers.Go(func() {
		for ctx.Err() == nil {
			s.denied("stranger", Silent, s.strange4, s.here.IP4)
		}
	})
	begin := time.Now()
	for i := range replacements {
		if err := a.Set(lists[(i+1)%2]); err != nil {
			t.Error(err)
		}
	}
	took := time.Since(begin) / replacements
	// Short lists take turns faster.
	for i := range 500 {
		if err := a.Set(lists[i%2][n-6:]); err != nil {
			t.Error(err)
		}
	}
	if err := a.Set(lists[0]); err != nil {
		t.Error(err)
	}
	stop()
	workers.Wait()
	if got, err := a.Allow(); err != nil || len(got) != n {
		t.Errorf("%d prefixes, %v", len(got), err)
	}
	// A SYN of a peer that is dropped is sent again, but it is counted.
	counts, err := a.Counters()
	for _, p := range append(s.peers(), peers...) {
		if c, ok := counts[p.Addr()]; ok || err != nil {
			t.Errorf("peer %v was refused %d times; %v", p, c.Refused, err)
		}
	}
	t.Logf("%d lists, %v each; %d verdicts, %d connections of a peer", replacements, took, verdicts.Load(), connects.Load())
}

// A process that dies while it writes a list leaves a part of it, which nobody sees and the next
// list removes.
func TestHalfAListOfADeadProcessIsNotSeen(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hookLookup, peers)
	half, err := listKeys(longList(100, 40, netip.PrefixFrom(stranger4, 32)))
	must(t, err)
	for i := range half {
		half[i].setGeneration(2) // the first list has 1
	}
	must(t, r.a.putState(admissionState{Generation: 1, Last: 1, Prefixes: uint32(len(peers)), Writing: 1}))
	must(t, r.a.insertKeys(half, valueListed))
	if got, err := r.a.Allow(); err != nil || len(got) != len(peers) {
		t.Errorf("list %v, %v", got, err)
	}
	if !r.refuses(lookupFrom(stranger4, 16385)) {
		t.Error("half a list counts")
	}
	must(t, r.a.Set(peers))
	if !r.refuses(lookupFrom(stranger4, 16385)) || r.refuses(lookupFrom(peer4, 16385)) {
		t.Error("half a list counts after the next one")
	}
	entries := 0
	if err := batch(r.a.maps[mapList], func(listKey, uint8) { entries++ }); err != nil || entries != len(peers) {
		t.Errorf("%d entries are left, want %d; %v", entries, len(peers), err)
	}
}

func TestGenerationsOfListsWrapAround(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hookLookup, nil)
	must(t, r.a.maps[mapState].Put(uint32(0), admissionState{Last: maxGeneration - 1}))
	for range 3 {
		must(t, r.a.Set(peers))
		if r.refuses(lookupFrom(peer4, 16385)) || !r.refuses(lookupFrom(stranger4, 16385)) {
			t.Error("a wrong verdict")
		}
	}
}

// Pins opened twice are as two processes: their lists do not mix.
func TestProcessesThatSetListsAtOnceDoNotMixThem(t *testing.T) {
	t.Parallel()
	dir := netlab.BPFFS(t) + "/rds"
	host, _ := netlab.Pair(t)
	first, err := LoadAdmission(AdmissionOptions{Dir: dir, Deny: Refuse, Netns: host.Netns()})
	must(t, err)
	defer first.Close()
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			a, err := OpenAdmission(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			for range 20 {
				if err := a.Set(longList(100*(i+1), byte(20+i))); err != nil {
					t.Error(err)
				}
				list, err := first.Allow()
				if err != nil || len(list) == 0 {
					t.Errorf("%d prefixes, %v", len(list), err)
					continue
				}
				network := list[0].Addr().As4()[0]
				if len(list) != 100*(int(network)-19) || list[len(list)-1].Addr().As4()[0] != network {
					t.Errorf("%d prefixes from %v to %v: mixed", len(list), list[0], list[len(list)-1])
				}
			}
		})
	}
	workers.Wait()
}

func BenchmarkSetTenThousand(b *testing.B) {
	netlab.Root(b)
	a, program, err := newAdmission(admissionConfig{Ether: true}, hookTCX, nil)
	must(b, err)
	defer program.Close()
	defer a.Close()
	lists := [][]netip.Prefix{longList(10000, 20), longList(10000, 30)}
	must(b, a.Set(lists[1]))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		must(b, a.Set(lists[i%2]))
		i++
	}
}

// BenchmarkLoadAdmission loads a filter and attaches it: to one interface, if it is of interfaces.
func BenchmarkLoadAdmission(b *testing.B) {
	netlab.Root(b)
	interfaces, err := net.Interfaces()
	must(b, err)
	i := slices.IndexFunc(interfaces, func(i net.Interface) bool { return i.Flags&net.FlagLoopback == 0 })
	if i < 0 {
		b.Skip("needs an interface besides loopback")
	}
	for _, o := range []AdmissionOptions{{Deny: Silent, Interfaces: []string{interfaces[i].Name}}, {Deny: Refuse}} {
		b.Run(string(o.Deny), func(b *testing.B) {
			for b.Loop() {
				a, err := LoadAdmission(o)
				must(b, err)
				b.StopTimer()
				a.Close()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkVerdict is the time that a program takes for a packet, as the kernel measures it.
func BenchmarkVerdict(b *testing.B) {
	s, d := tcpSegment(16385, syn, 0), tcpSegment(16385, ack|psh, 1000)
	for _, c := range []struct {
		kind   hookKind
		name   string
		packet []byte
	}{
		{hookTCX, "SYN of a peer, IPv4", packet4(peer4, protoTCP, 0, 0, s)},
		{hookTCX, "SYN of a peer, IPv6", packet6(peer6, protoTCP, nil, s)},
		{hookTCX, "SYN of a stranger, IPv4", packet4(stranger4, protoTCP, 0, 0, s)},
		{hookTCX, "SYN of a stranger, IPv6", packet6(stranger6, protoTCP, nil, s)},
		{hookTCX, "data, IPv4", packet4(peer4, protoTCP, 0, 0, d)},
		{hookTCX, "data, IPv6", packet6(peer6, protoTCP, nil, d)},
		{hookXDP, "SYN of a peer, IPv4", packet4(peer4, protoTCP, 0, 0, s)},
		{hookXDP, "SYN of a stranger, IPv4", packet4(stranger4, protoTCP, 0, 0, s)},
		{hookXDP, "SYN of a stranger, IPv6", packet6(stranger6, protoTCP, nil, s)},
		{hookXDP, "data, IPv4", packet4(peer4, protoTCP, 0, 0, d)},
		{hookXDP, "data, IPv6", packet6(peer6, protoTCP, nil, d)},
	} {
		b.Run(string(c.kind)+": "+c.name, func(b *testing.B) {
			r := newRunner(b, c.kind, longList(10000, 20, peers...))
			b.ResetTimer()
			_, each, err := r.p.Benchmark(ethernet(c.packet), b.N, b.ResetTimer)
			must(b, err)
			b.ReportMetric(float64(each.Nanoseconds()), "ns/packet")
		})
	}
	for _, from := range []netip.Addr{peer4, stranger4, stranger6} {
		b.Run("sk_lookup: "+from.String(), func(b *testing.B) {
			r := newRunner(b, hookLookup, longList(10000, 20, peers...))
			b.ResetTimer()
			if _, err := r.p.Run(&ebpf.RunOptions{Context: lookupFrom(from, 16385), Repeat: uint32(b.N)}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
