//go:build live

package ebpf

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ownNetns moves a benchmark to a network namespace of its own, with a loopback interface that
// is up.
func ownNetns(b *testing.B) {
	b.Helper()
	runtime.LockOSThread() // and not unlocked: the thread ends with the benchmark
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		b.Skipf("needs CAP_SYS_ADMIN, to make a network namespace: %v", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(b, err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	must(b, err)
	lo.SetUint16(unix.IFF_UP)
	must(b, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

// loopback makes connections, a server's and a client's of each.
func loopback(b *testing.B, n int) (clients, servers []*net.TCPConn) {
	b.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:16385")))
	must(b, err)
	defer l.Close()
	for range n {
		c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
		must(b, err)
		b.Cleanup(func() { c.Close() })
		s, err := l.AcceptTCP()
		must(b, err)
		b.Cleanup(func() { s.Close() })
		clients, servers = append(clients, c), append(servers, s)
	}
	return clients, servers
}

func BenchmarkTelemetrySnapshot(b *testing.B) {
	needRoot(b)
	for _, s := range []struct {
		name string
		list func(*Telemetry) ([]Connection, error)
	}{{"local", (*Telemetry).SnapshotLocal}, {"all", (*Telemetry).Snapshot}} {
		b.Run(s.name, func(b *testing.B) {
			ownNetns(b)
			tel, err := LoadTelemetry(TelemetryOptions{})
			must(b, err)
			defer tel.Close()
			loopback(b, 500) // both ends are here: 1,000 connections
			b.ReportAllocs()
			for b.Loop() {
				all, err := s.list(tel)
				if err != nil || len(all) < 1000 {
					b.Fatalf("%d connections, %v", len(all), err)
				}
			}
		})
	}
}

// BenchmarkTelemetryStream sends over loopback while the kernel counts the runs of the programs
// and their time. It reports the time of a run of each, and of all of them the share of one CPU.
func BenchmarkTelemetryStream(b *testing.B) {
	needRoot(b)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) { benchmarkStream(b, size) })
	}
}

func benchmarkStream(b *testing.B, size int) {
	ownNetns(b)
	tel, err := LoadTelemetry(TelemetryOptions{})
	must(b, err)
	defer tel.Close()
	clients, servers := loopback(b, 1)
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Skipf("the kernel counts no runs: %v", err)
	}
	defer stats.Close()
	read := make(chan error)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{servers[0]}, make([]byte, 256<<10))
		read <- err
	}()
	b.SetBytes(int64(size))
	payload := make([]byte, size)
	begin := time.Now()
	for b.Loop() {
		if _, err := clients[0].Write(payload); err != nil {
			b.Fatal(err)
		}
	}
	clients[0].CloseWrite()
	must(b, <-read)
	took := time.Since(begin)
	var all time.Duration
	for name, p := range tel.programs {
		s, err := p.Stats()
		must(b, err)
		all += s.Runtime
		if s.RunCount > 0 && name != "telemetry_connections" {
			b.ReportMetric(float64(s.Runtime.Nanoseconds())/float64(s.RunCount), name[len("telemetry_"):]+"-ns/run")
			b.ReportMetric(float64(s.RunCount)/took.Seconds(), name[len("telemetry_"):]+"-runs/s")
		}
	}
	b.ReportMetric(100*all.Seconds()/took.Seconds(), "%CPU")
}
