//go:build live

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

func TestMetricsServer(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	// Not a port that the system gives away: somebody else might have it after
	// Close, or Dial connect to itself there.
	taken, err := net.Listen("tcp", "127.22.12.1:9464")
	must(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	if _, err := serveMetrics(addr, constant(busy()), zap.NewNop()); err == nil {
		t.Fatal("no error although the address is taken")
	}
	taken.Close()
	m, err := serveMetrics(addr, constant(busy()), zap.NewNop())
	must(t, err)
	for path, status := range map[string]int{"/metrics": 200, "/": 404, "/debug/pprof/": 404} {
		res, err := http.Get("http://" + addr + path)
		must(t, err)
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, status)
		}
		for _, text := range []string{"\nrds_sessions 3\n", "\ngo_goroutines ", "rds_send_queued_total 12\n"} {
			if (status == 200) != strings.Contains(string(body), text) {
				t.Errorf("%s: status %d, and %q is there: %v", path, res.StatusCode, text, status != 200)
			}
		}
	}
	must(t, m.Close())
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still listening after Close")
	}
}

// metricsPage is what a daemon's metrics were.
type metricsPage struct {
	*testing.T
	address, text string
}

func (m *metricsPage) scrape() { m.Helper(); m.text = metricsAt(m.T, m.address) }

func (m *metricsPage) value(series string) float64 {
	m.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(m.text)
	if found == nil {
		m.Fatalf("no %s in\n%s", series, m.text)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	must(m.T, err)
	return v
}

func (m *metricsPage) want(series string, v float64) {
	m.Helper()
	if got := m.value(series); got != v {
		m.Errorf("%s %g, want %g", series, got, v)
	}
}

// refusedOperation does an operation on memory that has to be refused. The sender's socket is held back
// after a refusal.
func refusedOperation(ctx context.Context, t *testing.T, from *rds.Socket, to netip.AddrPort, token uint64, cookie rds.Cookie, write bool) {
	t.Helper()
	for status := rds.StatusAgain; status == rds.StatusAgain; {
		must(t, from.SendMessage(ctx, &rds.Outgoing{To: to, Notify: true, Token: token, RDMA: &rds.RDMA{Cookie: cookie, Local: [][]byte{make([]byte, 8)}, Write: write, Silent: true}}))
		m, err := from.Recv(ctx)
		if must(t, err); m.Kind != rds.KindStatus || m.Status != rds.StatusRemoteError && m.Status != rds.StatusAgain {
			t.Fatalf("%v", &m)
		}
		status = m.Status
	}
}

// An application of rdsd maps and frees memory, a peer uses bad keys, and a scrape of rdsd's
// metrics shows each: regions by state, invalidations, sizes of batches, durations of grace
// periods, and bad keys by reason.
func TestMRREQ39ScrapeShowsWhatWasDone(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	attach := filepath.Join(rdstest.Dir(t), "a.sock")
	d := daemonAt(t, "--listen", "127.22.61.9", "--port", "17263", "--wire", "xrc", "--socket", attach, "--metrics", "127.22.61.9:17265")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := &metricsPage{T: t, address: "127.22.61.9:17265"}
	const live, dirty, clean = `rds_memory_regions{pool="small",state="live"}`, `rds_memory_regions{pool="small",state="dirty"}`, `rds_memory_regions{pool="small",state="clean"}`
	const invalidations, batches = "rds_memory_invalidations_total", "rds_memory_batches_total"
	const sizes, sizeSum, graces = "rds_memory_batch_regions_count", "rds_memory_batch_regions_sum", "rds_memory_grace_seconds_count"

	app := bind(t, clientOf(t, attach), "127.22.61.9:4000")
	peer := bind(t, nodeOf(t, rds.Config{Port: 17263, Wire: rds.WireXRC}), "127.22.61.8:4000")
	m.scrape()
	for _, s := range []string{live, dirty, clean, "rds_memory_stale", invalidations, batches, sizes, sizeSum, graces} {
		m.want(s, 0)
	}

	const regions = 5
	var cookies [regions]rds.Cookie
	expose := func() rds.Cookie {
		memory, err := app.AllocMemory(4096)
		must(t, err)
		c, err := app.GetMRForDest(peer.LocalAddrPort(), memory.B, rds.MRReadOnly)
		must(t, err)
		return c
	}
	for i := range cookies {
		cookies[i] = expose()
	}
	m.scrape()
	m.want(live, regions)
	m.want(`rds_memory_regions{pool="large",state="live"}`, 0)
	m.want(`rds_memory_pinned_bytes{pool="small"}`, regions*4096)

	freed := 0
	for seen := 0.0; seen == 0; seen = m.value(dirty) { // a region freed lazily is dirty until the daemon gets round to it
		must(t, ctx.Err())
		must(t, app.FreeMR(expose(), 0))
		freed++
		m.scrape()
	}
	for _, c := range cookies[:regions-1] {
		must(t, app.FreeMR(c, 0))
	}
	must(t, app.FreeMR(0, rds.MRInvalidate))
	freed += regions - 1
	m.scrape()
	m.want(live, 1)
	m.want(dirty, 0)
	m.want(invalidations, float64(freed))
	m.want(sizeSum, float64(freed))
	n := m.value(batches)
	m.want(sizes, n)
	m.want(graces, n)
	m.want(`rds_memory_batch_regions_bucket{le="+Inf"}`, n)
	m.want(`rds_memory_grace_seconds_bucket{le="+Inf"}`, n)
	if c, s, single := m.value(clean), m.value("rds_memory_grace_seconds_sum"), m.value(`rds_memory_batch_regions_bucket{le="1"}`); n == 0 || c == 0 || s <= 0 || single >= n {
		t.Errorf("%g batches, %g of one region, which took %g s; %g clean bases", n, single, s, c)
	}

	const right = `rds_memory_bad_keys_total{reason="mr: right missing"}`
	const denied = `rds_memory_bad_keys_total{reason="mr: access denied"}` // a dead key, among other reasons
	m.want(right, 0)
	m.want(denied, 0)
	for token, x := range []struct {
		cookie rds.Cookie
		write  bool
	}{{cookies[regions-1], true}, {cookies[0], false}} { // a write without the right, a read by a key that was freed
		refusedOperation(ctx, t, peer, app.LocalAddrPort(), uint64(token), x.cookie, x.write)
	}
	m.scrape()
	m.want(right, 1)
	m.want(denied, 1)
	terminate(t, d)
}

// The names follow the conventions of Prometheus, those of all counters of a
// node among them, and no two metrics have the same.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	n, err := rds.NewNode(rds.Config{})
	must(t, err)
	defer n.Close()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(newCollector(func() (rds.Info, error) {
		info, err := n.Info()
		info.Sessions = busy().Sessions
		return info, err
	})); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
