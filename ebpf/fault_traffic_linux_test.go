//go:build live

package ebpf

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// faultOn is a Fault on an interface of a host, until the test ends.
func faultOn(t *testing.T, h *netlab.Host, iface string) *Fault {
	t.Helper()
	f, err := NewFault(FaultOptions{Netns: h.Netns(), Interface: iface})
	if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrPermission) {
		t.Skipf("needs a kernel with tcx, and the right to load programs: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// connection is a TCP connection from one host to a port of another.
func connection(t *testing.T, a, b *netlab.Host, at netip.Addr, port uint16) (from, to *net.TCPConn) {
	t.Helper()
	var err error
	var l net.Listener
	b.Do(func() { l, err = net.Listen("tcp", netip.AddrPortFrom(at, port).String()) })
	must(t, err)
	defer l.Close()
	// A dial waits in other goroutines, which are not on the host: the socket is made here.
	var fd int
	a.Do(func() {
		family := unix.AF_INET
		if at.Is6() {
			family = unix.AF_INET6
		}
		if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			var sa unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte(at.AsSlice())}
			if at.Is6() {
				sa = &unix.SockaddrInet6{Port: int(port), Addr: at.As16()}
			}
			err = unix.Connect(fd, sa)
		}
	})
	must(t, err)
	file := os.NewFile(uintptr(fd), "tcp")
	defer file.Close()
	c, err := net.FileConn(file)
	must(t, err)
	d, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { c.Close(); d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

func infoOf(t *testing.T, c *net.TCPConn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	if cerr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return info
}

// transfer sends octets and returns what arrives.
func transfer(t *testing.T, from, to *net.TCPConn, n int) (sent, got []byte) {
	t.Helper()
	sent = make([]byte, n)
	chacha := rand.NewChaCha8([32]byte{1})
	_, _ = chacha.Read(sent)
	failed := make(chan error, 1)
	go func() {
		_, err := from.Write(sent)
		failed <- err
	}()
	got = make([]byte, n)
	_ = to.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadFull(to, got); err != nil {
		t.Fatalf("after %d octets: %v", n, err)
	}
	must(t, <-failed)
	return sent, got
}

// What is dropped is lost to TCP: it retransmits, also where the drop is on its own host's
// way out, and everything arrives.
func TestDroppedPacketsAreRetransmitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		d     FaultDirection
		iface string
		six   bool
	}{{"out", FaultOut, "eth0", false}, {"in", FaultIn, "eth0", true}, {"loopback", FaultBoth, "lo", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := netlab.Pair(t)
			at, sender := b.IP4, a
			if c.six {
				at = b.IP6
			}
			if c.iface == "lo" {
				sender, at = b, netip.MustParseAddr("127.0.0.1")
			}
			from, to := connection(t, sender, b, at, 16385)
			// What b's interface sees: of a connection between the hosts, data that come in.
			h := b
			if c.d == FaultOut {
				h = sender
			}
			f := faultOn(t, h, c.iface)
			r := mustRule(t)(f.Drop(FaultMatch{Ports: []uint16{16385}, Direction: c.d}, FaultLimits{Rate: 0.05, For: time.Minute}))
			var octets int
			for { // until enough are dropped
				sent, got := transfer(t, from, to, 4<<20)
				octets += len(sent)
				if !bytes.Equal(sent, got) {
					t.Fatal("other octets arrive")
				}
				if counts, err := r.Counts(); err != nil || counts.Hit >= 20 {
					break
				}
			}
			info := infoOf(t, from)
			counts, err := r.Stop()
			t.Logf("%d octets: %+v, %d retransmitted", octets, counts, info.Total_retrans)
			if err != nil || counts.Seen < uint64(octets)/65536 || info.Total_retrans < 5 {
				t.Errorf("%+v, %v, %d retransmitted", counts, err, info.Total_retrans)
			}
		})
	}
}

// Changed octets are delivered, as no checksum is computed here, and the sender's own data
// are as they were: what is sent again, after a loss, is good.
func TestCorruptionDoesNotReachTheSendersData(t *testing.T) {
	t.Parallel()
	for _, iface := range []string{"lo", "eth0"} {
		for _, d := range []FaultDirection{FaultOut, FaultIn} {
			if iface == "lo" && d == FaultIn {
				continue
			}
			a, b := netlab.Pair(t)
			at, sender, h := b.IP4, a, a
			if d == FaultIn {
				h = b
			}
			if iface == "lo" {
				sender, h, at = b, b, netip.MustParseAddr("127.0.0.1")
			}
			f := faultOn(t, h, iface)
			from, to := connection(t, sender, b, at, 16385)
			// A changed packet is delivered.
			m := FaultMatch{Direction: d}
			r := mustRule(t)(f.Corrupt(m, FaultLimits{}))
			sent, got := transfer(t, from, to, 60_000)
			counts, _ := r.Stop()
			if n := bitsChanged(sent, got); n == 0 || n != int(counts.Hit) {
				t.Errorf("%s: %d bits changed, %+v", iface, n, counts)
			}
			// A packet that is changed and then dropped is sent again as it was.
			black := faultOn(t, b, iface) // its programs come behind those of f
			const dark = 150 * time.Millisecond
			for done := 0; done < 3; {
				one := mustRule(t)(f.Corrupt(m, FaultLimits{Count: 1}))
				began := time.Now()
				hole := mustRule(t)(black.Blackhole(FaultMatch{}, dark))
				if _, err := from.Write(sent); err != nil {
					t.Fatal(err)
				}
				late := time.Since(began) > dark
				if _, err := io.ReadFull(to, got); err != nil {
					t.Fatal(err)
				}
				changed, _ := one.Stop()
				dropped, _ := hole.Stop()
				if late {
					continue // this process had to wait: the data may have gone later
				}
				done++
				if changed.Hit != 1 || dropped.Hit == 0 || !bytes.Equal(sent, got) {
					t.Fatalf("%s: %d bits are wrong in what is sent again; %+v, %+v", iface, bitsChanged(sent, got), changed, dropped)
				}
			}
		}
	}
}

func bitsChanged(a, b []byte) (n int) {
	for i := range a {
		for x := a[i] ^ b[i]; x != 0; x &= x - 1 {
			n++
		}
	}
	return n
}

// Each packet comes twice, not more often, and TCP takes it once.
func TestDuplicatesComeOnce(t *testing.T) {
	t.Parallel()
	for _, d := range []FaultDirection{FaultOut, FaultIn} {
		a, b := netlab.Pair(t)
		h := map[FaultDirection]*netlab.Host{FaultOut: a, FaultIn: b}[d]
		f := faultOn(t, h, "eth0")
		from, to := connection(t, a, b, b.IP4, 18634)
		before := infoOf(t, to)
		m := FaultMatch{Direction: d}
		r := mustRule(t)(f.Duplicate(m, FaultLimits{For: time.Minute}))
		for i := range byte(100) {
			sent, got := transfer(t, from, to, 100+int(i))
			if !bytes.Equal(sent, got) {
				t.Fatal("other octets arrive")
			}
		}
		// The duplicate of the last packet may still be under way: it is received first, as it is
		// the earlier one, in whichever direction.
		after := infoOf(t, to)
		counts, err := r.Stop()
		segments := after.Segs_in - before.Segs_in
		t.Logf("%+v, %d segments", counts, segments)
		if err != nil || counts.Hit != counts.Seen || uint64(segments) < 2*counts.Hit-1 || uint64(segments) > 2*counts.Hit {
			t.Errorf("%+v, %v: %d segments", counts, err, segments)
		}
	}
}

func TestBlackholeEndsByItself(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	f := faultOn(t, a, "eth0")
	from, to := connection(t, a, b, b.IP4, 16385)
	r := mustRule(t)(f.Blackhole(FaultMatch{}, 300*time.Millisecond))
	began := time.Now()
	transfer(t, from, to, 1000)
	if d := time.Since(began); d < 300*time.Millisecond || !r.Ended() {
		t.Errorf("through after %v, ended %v", d, r.Ended())
	}
	if c, err := r.Stop(); c.Hit == 0 || c.Hit != c.Seen || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestDelayNeedsFQ(t *testing.T) {
	t.Parallel()
	a, _ := netlab.Pair(t)
	f := faultOn(t, a, "eth0")
	_, err := f.Delay(FaultMatch{}, FaultLimits{}, 20*time.Millisecond)
	const want = "interface eth0 has the qdisc noqueue, and only fq delays packets (tc qdisc replace dev eth0 root fq)"
	if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestPacketsAreDelayed(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	if out, err := a.Command("tc", "qdisc", "replace", "dev", "eth0", "root", "fq").CombinedOutput(); err != nil {
		t.Skipf("needs the program tc (iproute2) and a kernel with the qdisc fq: %v: %s", err, bytes.TrimSpace(out))
	}
	ln := listenPlain(t, b, "tcp4", ":16385")
	f := faultOn(t, a, "eth0")
	const by = 50 * time.Millisecond
	if _, err := f.Delay(FaultMatch{}, FaultLimits{}, by); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	must(t, connect(a, netip.AddrPortFrom(b.IP4, uint16(ln.Addr().(*net.TCPAddr).Port))))
	if d := time.Since(began); d < by {
		t.Errorf("a connect took %v, with a delay of %v", d, by)
	}
}

// Abort ends the chosen connections: this end fails with ECONNABORTED, the other is reset.
func TestAbortEndsConnections(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	f, err := NewFault(FaultOptions{Netns: a.Netns()})
	must(t, err)
	defer f.Close()
	rds, other := make([]*net.TCPConn, 0, 6), make([]*net.TCPConn, 0, 2)
	for i := range 3 {
		at := b.IP4
		if i == 2 {
			at = b.IP6
		}
		c, d := connection(t, a, b, at, 16385)
		rds = append(rds, c, d)
	}
	c, d := connection(t, a, b, b.IP4, 1234)
	other = append(other, c, d)
	if n, err := f.Abort(FaultMatch{Remote: netip.AddrPortFrom(b.IP6.WithZone("eth0"), 0)}, 0); n != 1 || err != nil {
		t.Errorf("%d by address, %v", n, err)
	}
	if n, err := f.Abort(FaultMatch{}, 1); n != 1 || err != nil {
		t.Errorf("%d, at most 1: %v", n, err)
	}
	if n, err := f.Abort(FaultMatch{}, 0); n != 1 || err != nil {
		t.Errorf("%d of the rest, %v", n, err)
	}
	for i, c := range rds {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		want := []error{unix.ECONNABORTED, unix.ECONNRESET}[i%2]
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	transfer(t, other[0], other[1], 1000)
}

const faultChildEnv = "RDS_FAULT_CHILD"

// A process that is killed while its faults are made leaves nothing: no program is attached,
// and packets pass.
func TestFaultsEndWithTheirProcess(t *testing.T) {
	if ns := os.Getenv(faultChildEnv); ns != "" {
		f, err := NewFault(FaultOptions{Netns: ns, Interface: "eth0"})
		if err == nil {
			_, err = f.Blackhole(FaultMatch{}, MaxFaultTime)
		}
		must(t, err)
		os.Stdout.WriteString("black\n")
		select {}
	}
	t.Parallel()
	a, b := netlab.Pair(t)
	from, to := connection(t, a, b, b.IP4, 16385)
	child := exec.Command(os.Args[0], "-test.run=^TestFaultsEndWithTheirProcess$")
	child.Env = append(os.Environ(), faultChildEnv+"="+a.Netns())
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line := make([]byte, 6)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "black\n" {
		t.Errorf("%q, %v", line, err)
	}
	if n := attached(t, a); n != 2 {
		t.Errorf("%d programs while faults are made", n)
	}
	if _, err := from.Write(make([]byte, 1000)); err != nil {
		t.Error(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := to.Read(line); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("through a black hole: %v", err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	_ = to.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(to, make([]byte, 1000)); err != nil {
		t.Error(err)
	}
	deadline, tick := time.Now().Add(10*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for attached(t, a) != 0 {
		if <-tick.C; time.Now().After(deadline) {
			t.Fatalf("%d programs are attached", attached(t, a))
		}
	}
}

// attached is the number of programs that are attached to eth0 of a host.
func attached(t *testing.T, h *netlab.Host) (n int) {
	t.Helper()
	h.Do(func() {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			t.Error(err)
			return
		}
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			q, err := link.QueryPrograms(link.QueryOptions{Target: i.Index, Attach: at})
			if err != nil {
				t.Error(err)
				return
			}
			n += len(q.Programs)
		}
	})
	return n
}
