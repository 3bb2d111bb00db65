//go:build live

package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// listenPlain is a listening socket of plain TCP on a host of the lab.
func listenPlain(t *testing.T, h *netlab.Host, network, address string) *net.TCPListener {
	t.Helper()
	var (
		l   net.Listener
		err error
	)
	h.Do(func() {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(context.Background(), network, address)
	})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func cookieOf(t *testing.T, ln *net.TCPListener) (cookie uint64) {
	t.Helper()
	must(t, withListener(ln, func(l *listener) error { cookie = l.cookie; return nil }))
	return cookie
}

func loadHandover(t testing.TB, o HandoverOptions) *Handover {
	t.Helper()
	h, err := LoadHandover(o)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// lookupOf is a packet as sk_lookup programs see it: struct bpf_sk_lookup.
func lookupOf(protocol uint32, local netip.AddrPort) []byte {
	b := make([]byte, 72)
	n := binary.NativeEndian
	put := func(four, six int, a netip.Addr) {
		if a.Is4() {
			copy(b[four:], a.AsSlice())
		} else {
			copy(b[six:], a.AsSlice())
		}
	}
	family, remote := uint32(unix.AF_INET), netip.MustParseAddr("192.0.2.9")
	if local.Addr().Is6() {
		family, remote = unix.AF_INET6, netip.MustParseAddr("2001:db8::9")
	}
	n.PutUint32(b[8:], family)
	n.PutUint32(b[12:], protocol)
	put(16, 20, remote)
	binary.BigEndian.PutUint16(b[36:], 40000)
	put(40, 44, local.Addr())
	n.PutUint32(b[60:], uint32(local.Port()))
	return b
}

// runLookup runs the program once and returns the cookie of the socket that it has chosen.
func runLookup(t testing.TB, p *ebpf.Program, protocol uint32, local netip.AddrPort) uint64 {
	t.Helper()
	in := lookupOf(protocol, local)
	out := make([]byte, len(in))
	verdict, err := p.Run(&ebpf.RunOptions{Context: in, ContextOut: out})
	must(t, err)
	if verdict != 1 { // SK_PASS
		t.Fatalf("%v: verdict %d", local, verdict)
	}
	return binary.NativeEndian.Uint64(out)
}

// testHandover is a handover that is not attached anywhere, with its program, and a network
// namespace for sockets.
func testHandover(t *testing.T) (*Handover, *ebpf.Program, *netlab.Host) {
	t.Helper()
	host := netlab.Hosts(t, 1)[0]
	h, program, err := newHandover(handoverConfig{Ports: defaultPorts}, nil)
	must(t, err)
	t.Cleanup(func() { program.Close(); h.Close() })
	return h, program, host
}

func TestHandoverProgramFindsTheListenerOfTheLongestPrefix(t *testing.T) {
	t.Parallel()
	h, program, host := testHandover(t)
	wide, narrow := listenPlain(t, host, "tcp4", "127.0.0.1:0"), listenPlain(t, host, "tcp4", "127.0.0.1:0")
	six, both := listenPlain(t, host, "tcp6", "[::1]:0"), listenPlain(t, host, "tcp", ":0")
	gone := listenPlain(t, host, "tcp4", "127.0.0.1:0")
	for _, r := range []struct {
		ln       *net.TCPListener
		port     uint16
		prefixes []netip.Prefix
	}{
		{wide, 16385, prefixes("10.1.0.0/20", "10.1.4.7/32")},
		{narrow, 16385, prefixes("10.1.4.0/24")},
		{narrow, 18634, prefixes("10.1.0.0/20")},
		{six, 16385, prefixes("2001:db8::/32")},
		{both, 16385, prefixes("2001:db8:1::/48", "::ffff:10.2.0.0/112", "::/0")},
		{gone, 16385, prefixes("10.1.8.0/24")},
	} {
		must(t, h.Register(r.prefixes, r.port, r.ln))
	}
	gone.Close()
	for _, c := range []struct {
		what     string
		protocol uint32
		local    string
		want     *net.TCPListener // nil: none
	}{
		{"first address", unix.IPPROTO_TCP, "10.1.0.0:16385", wide},
		{"last address", unix.IPPROTO_TCP, "10.1.15.255:16385", wide},
		{"address before the prefix", unix.IPPROTO_TCP, "10.0.255.255:16385", nil},
		{"address behind the prefix", unix.IPPROTO_TCP, "10.1.16.0:16385", nil},
		{"longer prefix", unix.IPPROTO_TCP, "10.1.4.6:16385", narrow},
		{"longest prefix", unix.IPPROTO_TCP, "10.1.4.7:16385", wide},
		{"the other port", unix.IPPROTO_TCP, "10.1.4.7:18634", narrow},
		{"a port that is not ours", unix.IPPROTO_TCP, "10.1.4.7:22", nil},
		{"UDP", unix.IPPROTO_UDP, "10.1.4.7:16385", nil},
		{"IPv6", unix.IPPROTO_TCP, "[2001:db8:7::1]:16385", six},
		{"IPv6, longer prefix", unix.IPPROTO_TCP, "[2001:db8:1::1]:16385", both},
		{"IPv6, other port", unix.IPPROTO_TCP, "[2001:db8:7::1]:18634", nil},
		{"IPv6, everything else", unix.IPPROTO_TCP, "[fd00::1]:16385", both},
		{"mapped prefix, IPv4 packet, socket of both families", unix.IPPROTO_TCP, "10.2.255.1:16385", both},
		{"IPv4 packet is not in ::/0", unix.IPPROTO_TCP, "192.0.2.1:16385", nil},
		{"listener is closed", unix.IPPROTO_TCP, "10.1.8.1:16385", nil},
	} {
		want := uint64(0)
		if c.want != nil {
			want = cookieOf(t, c.want)
		}
		if got := runLookup(t, program, c.protocol, netip.MustParseAddrPort(c.local)); got != want {
			t.Errorf("%s: %s is handed to %d, want %d", c.what, c.local, got, want)
		}
	}
	s, err := h.Status()
	if err != nil || s.Listeners != 4 || s.Prefixes != 8 || s.Vacant != 1 || s.Handed != 9 || s.Missed != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestHandoverRegistersOnlyWhatItCanHandOver(t *testing.T) {
	t.Parallel()
	h, program, host := testHandover(t)
	first, second := listenPlain(t, host, "tcp4", "127.0.0.1:0"), listenPlain(t, host, "tcp4", "127.0.0.1:0")
	at := netip.MustParseAddrPort("10.1.0.9:16385")
	must(t, h.Register(prefixes("10.1.0.0/24", "10.1.0.0/24"), 16385, first))
	if err := h.Register(prefixes("10.1.0.0/24"), 16385, first); err != nil {
		t.Errorf("again: %v", err)
	}
	err := h.Register(prefixes("10.3.0.0/24", "10.1.0.99/24"), 16385, second)
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a prefix of another socket: %v", err)
	}
	if all, err := h.Prefixes(); err != nil || len(all) != 1 || !all[0].Live || all[0].Prefix != netip.MustParsePrefix("10.1.0.0/24") {
		t.Errorf("after an error: %+v, %v", all, err)
	}
	first.Close()
	if got := runLookup(t, program, unix.IPPROTO_TCP, at); got != 0 {
		t.Errorf("a closed socket is chosen: %d", got)
	}
	if err := h.Register(prefixes("10.1.0.0/24"), 16385, second); err != nil {
		t.Errorf("a prefix of a closed socket: %v", err)
	}
	if got := runLookup(t, program, unix.IPPROTO_TCP, at); got != cookieOf(t, second) {
		t.Errorf("handed to %d", got)
	}
	must(t, h.Unregister(second))
	if got := runLookup(t, program, unix.IPPROTO_TCP, at); got != 0 {
		t.Errorf("handed to %d after Unregister", got)
	}
	if err := h.Unregister(second); err != nil {
		t.Errorf("Unregister again: %v", err)
	}
	var multipath net.Listener
	host.Do(func() {
		var lc net.ListenConfig
		lc.SetMultipathTCP(true)
		multipath, err = lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	})
	must(t, err)
	defer multipath.Close()
	for what, err := range map[string]error{
		"multipath TCP":            h.Register(prefixes("10.1.0.0/24"), 16385, multipath.(*net.TCPListener)),
		"a port that is not ours":  h.Register(prefixes("10.1.0.0/24"), 22, second),
		"IPv6 to a socket of IPv4": h.Register(prefixes("fd00::/64"), 16385, second),
		"no prefix":                h.Register([]netip.Prefix{{}}, 16385, second),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else {
			t.Log(err)
		}
	}
}

// accepted is the local address of the next connection of a listener.
func accepted(ln *net.TCPListener) (netip.Addr, error) {
	c, err := ln.AcceptTCP()
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), nil
}

// connect connects from a host and tells how that went.
func connect(h *netlab.Host, to netip.AddrPort) (err error) {
	h.Do(func() {
		var c net.Conn
		d := net.Dialer{Timeout: 5 * time.Second}
		if c, err = d.DialContext(context.Background(), "tcp", to.String()); err == nil {
			c.Close()
		}
	})
	return err
}

func TestHandoverDoesNotLetStrangersPastAdmission(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	b.Run("ip", "route", "add", "local", "10.1.0.0/24", "dev", "lo")
	a.Run("ip", "route", "add", "10.1.0.0/24", "via", b.IP4.String())
	to := netip.MustParseAddrPort("10.1.0.77:16385")
	allow := func(list ...netip.Prefix) *Admission {
		t.Helper()
		filter, err := LoadAdmission(AdmissionOptions{Deny: Refuse, Netns: b.Netns(), Allow: list})
		must(t, err)
		t.Cleanup(func() { filter.Close() })
		return filter
	}
	ln := listenPlain(t, b, "tcp4", "10.1.0.0:16385")
	_ = ln.SetDeadline(time.Now().Add(10 * time.Second))
	stranger, host := prefixes("10.250.0.0/24"), []netip.Prefix{netip.PrefixFrom(a.IP4, 32)}
	for _, admissionFirst := range []bool{true, false} {
		var filter *Admission
		if admissionFirst {
			filter = allow(stranger...)
		}
		h := loadHandover(t, HandoverOptions{Netns: b.Netns()})
		must(t, h.Register(prefixes("10.1.0.0/24"), 16385, ln))
		if !admissionFirst {
			filter = allow(stranger...)
		}
		if err := connect(a, to); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("admission first %v: a stranger: %v", admissionFirst, err)
		}
		must(t, filter.Set(host))
		if err := connect(a, to); err != nil {
			t.Errorf("admission first %v: an allowed host: %v", admissionFirst, err)
		}
		if at, err := accepted(ln); err != nil || at != to.Addr() {
			t.Errorf("accepted at %v, %v", at, err)
		}
		must(t, filter.Set(stranger))
		must(t, filter.Close())
		if err := connect(a, to); err != nil {
			t.Errorf("admission first %v: without the admission: %v", admissionFirst, err)
		}
		if _, err := accepted(ln); err != nil {
			t.Error(err)
		}
		must(t, h.Close())
	}
}

func TestPinnedHandoverOutlivesItsLoader(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	b.Run("ip", "route", "add", "local", "10.1.0.0/24", "dev", "lo")
	a.Run("ip", "route", "add", "10.1.0.0/24", "via", b.IP4.String())
	dir := filepath.Join(netlab.BPFFS(t), "handover")
	to := netip.MustParseAddrPort("10.1.0.77:16385")
	if _, err := OpenHandover(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before it is loaded: %v", err)
	}
	load := func(ports ...uint16) {
		t.Helper()
		h, err := LoadHandover(HandoverOptions{Dir: dir, Netns: b.Netns(), Ports: ports})
		must(t, err)
		h.Close()
	}
	load()
	h, err := OpenHandover(dir)
	must(t, err)
	defer h.Close()
	ln := listenPlain(t, b, "tcp4", "127.0.0.1:0")
	for host, here := range map[*netlab.Host]bool{a: false, b: true} {
		host.Do(func() {
			if s, err := h.Status(); err != nil || s.Here != here {
				t.Errorf("status in %s: %+v, %v", host.Name, s, err)
			}
		})
	}
	must(t, h.Register(prefixes("10.1.0.0/24"), 16385, ln))
	if err := connect(a, to); err != nil {
		t.Errorf("registered: %v", err)
	}
	load()
	load(18634, 16385) // another program in its place, with the same maps
	if err := connect(a, to); err != nil {
		t.Errorf("loaded again: %v", err)
	}
	other := listenPlain(t, a, "tcp4", "127.0.0.1:0")
	if err := h.Register(prefixes("10.1.0.7/32"), 16385, other); err == nil {
		t.Error("a socket of another network namespace is registered")
	}
	must(t, UnloadHandover(dir))
	if err := connect(a, to); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("unloaded: %v", err)
	}
	if err := UnloadHandover(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unloaded twice: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	load()
	must(t, UnloadHandover(dir))
}

func BenchmarkHandoverLookup(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root, to load programs into the kernel")
	}
	h, program, err := newHandover(handoverConfig{Ports: defaultPorts}, nil)
	must(b, err)
	defer h.Close()
	defer program.Close()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	must(b, err)
	defer l.Close()
	const perPrefix = 16
	var all []netip.Prefix
	for i := 0; i < 4096; i += perPrefix {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 28))
	}
	for _, c := range []struct {
		name     string
		prefixes []netip.Prefix
		local    string
	}{
		{"other port", nil, "10.1.5.5:22"}, {"no prefix", nil, "10.1.5.5:16385"},
		{"one /20", prefixes("10.1.0.0/20"), "10.1.5.5:16385"}, {"256 x /28", all, "10.1.5.5:16385"},
	} {
		must(b, h.Register(c.prefixes, 16385, l.(*net.TCPListener)))
		b.Run(c.name, func(b *testing.B) {
			in := lookupOf(unix.IPPROTO_TCP, netip.MustParseAddrPort(c.local))
			out := make([]byte, len(in))
			// The kernel repeats the run: b.N of one call.
			if _, err := program.Run(&ebpf.RunOptions{Context: in, ContextOut: out, Repeat: uint32(b.N)}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
