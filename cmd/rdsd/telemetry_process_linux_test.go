//go:build live

package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// scrape is a host's answer to a request for metrics.
func scrape(t *testing.T, h *netlab.Host, address string) string {
	t.Helper()
	var c net.Conn
	var err error
	h.Do(func() { c, err = net.Dial("tcp", address) })
	must(t, err)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", metricsPath); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	must(t, err)
	return string(answer)
}

func loadTelemetry(t *testing.T, pins string) {
	t.Helper()
	tel, err := ebpf.LoadTelemetry(ebpf.TelemetryOptions{Dir: pins})
	must(t, err)
	must(t, tel.Close())
}

// rdsd as the shipped unit runs it, root with no capability but CAP_CHOWN and a read-only /sys,
// reads what rdsbpf has pinned.
func TestMetricsHaveTheKernelsTelemetry(t *testing.T) {
	t.Parallel()
	var hosts [2]*netlab.Host
	hosts[0], hosts[1] = netlab.Pair(t)
	mount := netlab.BPFFS(t)
	pins := filepath.Join(mount, "rds")
	const metrics = "127.0.0.1:9110"
	var sockets [2]*rds.Socket
	var daemons [2]*clitest.Process
	loadTelemetry(t, pins)
	for i, h := range hosts {
		d := rdstest.Dir(t)
		attach, file := filepath.Join(d, "a.sock"), filepath.Join(d, "rdsd.toml")
		text := fmt.Sprintf("listen = ['%s']\nmetrics = '%s'\n[admission]\npins = '%s'\n", h.IP4, metrics, pins)
		if i == 1 {
			text += "[telemetry]\nkernel = 'off'\n"
		}
		must(t, os.WriteFile(file, []byte(text), 0o600))
		args := h.Args("unshare", "--mount", "sh", "-c", `mount -o remount,bind,ro "$0" && exec "$@"`, mount,
			"setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all", "--no-new-privs", bin.Path("rdsd"), "--config", file)
		daemons[i] = clitest.StartEnv(t, []string{"RDS_SOCKET=" + attach, "RDS_CONTROL=none"}, args[0], args[1:]...)
		if i == 0 {
			daemons[i].Line(daemons[i].Stderr, "metrics have the kernel's telemetry")
		}
		daemons[i].Line(daemons[i].Stderr, "ready")
		sockets[i] = bind(t, clientOf(t, attach), netip.AddrPortFrom(h.IP4, 4000).String())
	}
	exchange := func() {
		for range 100 {
			for i, s := range sockets {
				must(t, s.Send(t.Context(), sockets[1-i].LocalAddrPort(), []byte("hello")))
				if _, _, err := sockets[1-i].ReadMessage(nil, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	wanted := []string{`rds_kernel_telemetry{part="telemetry of connections"} 1`,
		`rds_kernel_rtt_seconds_bucket{local="10.99.0.1",peer="10.99.0.2",le="2.048e-06"} `,
		`rds_kernel_rtt_seconds_bucket{local="10.99.0.1",peer="10.99.0.2",le="34.359738368"} `,
		`rds_kernel_rtt_seconds_sum{local="10.99.0.1",peer="10.99.0.2"} `,
		`rds_kernel_receive_wait_seconds_sum{local="10.99.0.1",peer="10.99.0.2"} `}
	check := func() {
		t.Helper()
		exchange()
		got := scrape(t, hosts[0], metrics)
		for _, w := range wanted {
			if !strings.Contains(got, w) {
				t.Errorf("no %s in\n%s", w, got)
			}
		}
		for _, zero := range []string{"rds_kernel_rtt_seconds_count", "rds_kernel_receive_wait_seconds_count"} {
			if strings.Contains(got, zero+`{local="10.99.0.1",peer="10.99.0.2"} 0`+"\n") {
				t.Errorf("%s is 0", zero)
			}
		}
	}
	check()
	if got := scrape(t, hosts[1], metrics); strings.Contains(got, "rds_kernel_") {
		t.Errorf("telemetry is off, and shown:\n%s", got)
	}
	must(t, ebpf.UnloadTelemetry(pins))
	if got := scrape(t, hosts[0], metrics); strings.Contains(got, "rds_kernel_") || !strings.Contains(got, "rds_peers") {
		t.Errorf("telemetry is unloaded:\n%s", got)
	}
	loadTelemetry(t, pins)
	check()
}
