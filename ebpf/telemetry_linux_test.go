//go:build live

package ebpf

import (
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/ebpf/internal/bpf"
	"github.com/rds-go/rds/internal/netlab"
)

// measure loads telemetry of a port for a test. Sockets of other tests have other ports.
func measure(t *testing.T, o TelemetryOptions) *Telemetry {
	t.Helper()
	netlab.Root(t)
	tel, err := LoadTelemetry(o)
	must(t, err)
	t.Cleanup(func() {
		if err := tel.Close(); err != nil {
			t.Error(err)
		}
	})
	return tel
}

// dial connects two hosts, client to server.
func dial(t *testing.T, client, server *netlab.Host, address netip.Addr, port uint16) (c, s *net.TCPConn) {
	t.Helper()
	l := listen(t, server, address, port)
	defer l.Close()
	c = dialTo(t, client, netip.AddrPortFrom(address, port))
	accepted, err := l.AcceptTCP()
	must(t, err)
	t.Cleanup(func() { accepted.Close() })
	return c, accepted
}

func listen(t *testing.T, h *netlab.Host, address netip.Addr, port uint16) (l *net.TCPListener) {
	t.Helper()
	var err error
	h.Do(func() {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, port)))
	})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func dialTo(t *testing.T, h *netlab.Host, to netip.AddrPort) (c *net.TCPConn) {
	t.Helper()
	var err error
	h.Do(func() { c, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to)) })
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// roundTrips sends an octet there and back.
func roundTrips(t *testing.T, a, b *net.TCPConn, n int, each func()) {
	t.Helper()
	octet := make([]byte, 1)
	for range n {
		for _, way := range [][2]*net.TCPConn{{a, b}, {b, a}} {
			if _, err := way[0].Write(octet); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(way[1], octet); err != nil {
				t.Fatal(err)
			}
		}
		each()
	}
}

func tcpInfo(t *testing.T, c *net.TCPConn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	if e := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return info
}

func localOf(c *net.TCPConn) netip.AddrPort {
	a := c.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// find is the connection of a socket in a snapshot.
func find(t *testing.T, tel *Telemetry, c *net.TCPConn) Connection {
	t.Helper()
	all, err := tel.Snapshot()
	must(t, err)
	i := slices.IndexFunc(all, func(x Connection) bool { return x.Local == localOf(c) })
	if i < 0 {
		t.Fatalf("%v is not among %d connections", localOf(c), len(all))
	}
	return all[i]
}

func TestTelemetryAgreesWithTCPInfo(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21001}})
	for _, address := range []netip.Addr{b.IP4, b.IP6} {
		client, server := dial(t, a, b, address, 21001)
		roundTrips(t, client, server, 100, func() {})
		// TCP_INFO's smoothed times follow the single ones, which the histogram has: the means agree.
		before := find(t, tel, client)
		var told time.Duration
		const n = 2000
		roundTrips(t, client, server, n, func() { told += time.Duration(tcpInfo(t, client).Rtt) * time.Microsecond })
		after := find(t, tel, client)
		single := after.RTTs.Since(&before.RTTs)
		mean, smoothed := single.Sum/time.Duration(max(single.Count, 1)), told/n
		if d := (mean - smoothed).Abs(); d > smoothed/20+time.Microsecond/2 { // TCP_INFO cuts to microseconds
			t.Errorf("%v: mean of %d round trips %v, of TCP_INFO's smoothed ones %v", address, single.Count, mean, smoothed)
		}
		t.Logf("%v: mean of %d round trips %v, of TCP_INFO's smoothed ones %v", address, single.Count, mean, smoothed)
		const bulk = 1 << 20
		sent := make(chan error)
		go func() {
			_, err := client.Write(make([]byte, bulk))
			sent <- err
		}()
		if _, err := io.ReadFull(server, make([]byte, bulk)); err != nil {
			t.Fatal(err)
		}
		must(t, <-sent)
		for _, c := range []*net.TCPConn{client, server} {
			netlab.Until(t, "all is acknowledged", func() bool { return tcpInfo(t, c).Unacked == 0 })
			info, got := tcpInfo(t, c), find(t, tel, c)
			// A window update may come between the two readings, and change nothing but times.
			for _, v := range []struct {
				name      string
				got, want float64
			}{
				{"RTT", float64(got.RTT.Microseconds()), float64(info.Rtt)},
				{"shortest RTT", float64(got.MinRTT.Microseconds()), float64(info.Min_rtt)},
				{"congestion window", float64(got.Cwnd), float64(info.Snd_cwnd)},
				{"octets acknowledged", float64(got.Acked), float64(info.Bytes_acked)},
				{"octets received", float64(got.Received), float64(info.Bytes_received)},
				{"retransmits", float64(got.Retransmits), float64(info.Total_retrans)},
			} {
				if math.Abs(v.got-v.want) > 0.05*v.want {
					t.Errorf("%v: %s: %v, by TCP_INFO %v", localOf(c), v.name, v.got, v.want)
				}
			}
			if got.State != "established" || !got.Timed || got.ReceiveQueue != 0 || got.Unacked != 0 || got.Unsent != 0 {
				t.Errorf("%+v", got)
			}
			if got.RTTs.Count < 300 || got.Waits.Count < 300 {
				t.Errorf("%d round trips and %d waits, want 300 at least", got.RTTs.Count, got.Waits.Count)
			}
		}
	}
}

func TestTelemetrySeesHowLongDataWaits(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21002}})
	client, server := dial(t, a, b, b.IP4, 21002)
	const sent, wait = 1000, 50 * time.Millisecond
	begin := time.Now()
	if _, err := client.Write(make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	netlab.Until(t, "the data is in the queue", func() bool { return find(t, tel, server).ReceiveQueue == sent })
	stalled := time.Now()
	netlab.Until(t, "it has waited", func() bool { return time.Since(stalled) >= wait })
	if w := find(t, tel, server).Waits; w.Count != 0 {
		t.Errorf("%d waits before anybody has read", w.Count)
	}
	// The wait ends when all that came at once is read.
	if _, err := io.ReadFull(server, make([]byte, sent/2)); err != nil {
		t.Fatal(err)
	}
	if w := find(t, tel, server).Waits; w.Count != 0 {
		t.Errorf("%d waits when half is read", w.Count)
	}
	if _, err := io.ReadFull(server, make([]byte, sent/2)); err != nil {
		t.Fatal(err)
	}
	if w := find(t, tel, server).Waits; w.Count != 1 || w.Sum < wait || w.Sum > time.Since(begin) {
		t.Errorf("%d waits, %v; want one of %v to %v", w.Count, w.Sum, wait, time.Since(begin))
	}
	if w := find(t, tel, client).Waits; w.Count != 0 {
		t.Errorf("%d waits of the sender", w.Count)
	}
}

func TestTelemetryTimesConnectionsThatAreOlder(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	client, server := dial(t, a, b, b.IP4, 21003)
	roundTrips(t, client, server, 10, func() {})
	tel := measure(t, TelemetryOptions{Ports: []uint16{21003}})
	if got := find(t, tel, client); !got.Timed || got.RTTs.Count != 0 {
		t.Errorf("timed %v, %d round trips, before any", got.Timed, got.RTTs.Count)
	}
	roundTrips(t, client, server, 10, func() {})
	if got := find(t, tel, client); got.RTTs.Count == 0 || got.Waits.Count != 10 {
		t.Errorf("%d round trips, %d waits", got.RTTs.Count, got.Waits.Count)
	}
}

func TestTelemetrySeesAllNamespaces(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21004}})
	client, server := dial(t, a, b, b.IP6, 21004)
	other, _ := dial(t, a, b, b.IP6, 21005) // not one of ours
	for _, x := range []struct {
		host *netlab.Host
		c    *net.TCPConn
	}{{a, client}, {b, server}} {
		var st unix.Stat_t
		must(t, unix.Stat(x.host.Netns(), &st))
		got := find(t, tel, x.c)
		if uint64(got.Netns) != st.Ino || got.UID != 0 || got.Inode == 0 {
			t.Errorf("namespace %d, uid %d, inode %d; want namespace %d", got.Netns, got.UID, got.Inode, st.Ino)
		}
	}
	all, err := tel.Snapshot()
	if err != nil || len(all) != 2 || slices.ContainsFunc(all, func(c Connection) bool { return c.Local == localOf(other) }) {
		t.Errorf("%d connections, %v; want 2", len(all), err)
	}
	b.Do(func() { all, err = tel.SnapshotLocal() })
	if err != nil || len(all) != 1 || all[0].Local != localOf(server) {
		t.Errorf("%+v, %v; want the server's", all, err)
	}
}

// kept counts the sockets of which the kernel keeps something.
func kept(t *testing.T, tel *Telemetry) int {
	t.Helper()
	c, err := load(bpf.LoadTelemetry, loading{programs: []string{bpf.TelemetryProgTelemetryKept}, maps: tel.maps})
	must(t, err)
	defer c.Close()
	it, err := link.AttachIter(link.IterOptions{Program: c.Programs[bpf.TelemetryProgTelemetryKept],
		Map: tel.maps[bpf.TelemetryMapTelemetrySockets]})
	must(t, err)
	defer it.Close()
	octets, err := readIter(it.Open)
	must(t, err)
	return len(octets)
}

func TestTelemetryKeepsNothingOfClosedConnections(t *testing.T) {
	t.Parallel()
	connects := 2000
	if os.Getenv("RDS_LONG") != "" {
		connects = 100_000
	}
	a, b := netlab.Pair(t)
	tel := measure(t, TelemetryOptions{Ports: []uint16{21006}})
	l := listen(t, b, b.IP4, 21006)
	const together = 500
	for done := 0; done < connects; done += together {
		var open []*net.TCPConn
		a.Do(func() {
			for range together {
				c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetLinger(0) // no TIME_WAIT: there are fewer ports than connects
				open = append(open, c)
				s, err := l.AcceptTCP()
				if err != nil {
					t.Error(err)
					return
				}
				open = append(open, s)
			}
		})
		if n := kept(t, tel); n != 2*together {
			t.Errorf("%d sockets, want %d", n, 2*together)
		}
		for _, c := range open {
			c.Close()
		}
		if t.Failed() {
			return
		}
	}
	// Sockets are freed after a grace period of the kernel.
	netlab.Until(t, "nothing is kept", func() bool { return kept(t, tel) == 0 })
}
