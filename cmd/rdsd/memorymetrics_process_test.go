package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// An application of rdsd maps and frees memory, a peer uses bad keys, and a scrape of rdsd's
// metrics shows each: regions by state, invalidations, sizes of batches, durations of grace
// periods, and bad keys by reason.
func TestMRREQ39ScrapeShowsWhatWasDone(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	attach := filepath.Join(dir(t), "a.sock")
	d := daemonAt(t, "--listen", "127.22.61.9", "--port", "17263", "--wire", "xrc", "--socket", attach, "--metrics", "127.22.61.9:17265")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var page string
	scrape := func() {
		t.Helper()
		answer, err := http.Get("http://127.22.61.9:17265" + metricsPath)
		fail(err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		fail(err)
		page = string(b)
	}
	value := func(series string) float64 {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no %s in\n%s", series, page)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		fail(err)
		return v
	}
	want := func(series string, v float64) {
		t.Helper()
		if got := value(series); got != v {
			t.Errorf("%s %g, want %g", series, got, v)
		}
	}
	const live, dirty, clean = `rds_memory_regions{pool="small",state="live"}`, `rds_memory_regions{pool="small",state="dirty"}`, `rds_memory_regions{pool="small",state="clean"}`
	const invalidations, batches = "rds_memory_invalidations_total", "rds_memory_batches_total"
	const sizes, sizeSum, graces = "rds_memory_batch_regions_count", "rds_memory_batch_regions_sum", "rds_memory_grace_seconds_count"

	app := bind(t, clientOf(t, attach), "127.22.61.9:4000")
	peer := bind(t, nodeOf(t, rds.Config{Port: 17263, Wire: rds.WireXRC}), "127.22.61.8:4000")
	scrape()
	for _, s := range []string{live, dirty, clean, "rds_memory_stale", invalidations, batches, sizes, sizeSum, graces} {
		want(s, 0)
	}

	const regions = 5
	var cookies [regions]rds.Cookie
	expose := func() rds.Cookie {
		m, err := app.AllocMemory(4096)
		fail(err)
		c, err := app.GetMRForDest(peer.LocalAddrPort(), m.B, rds.MRReadOnly)
		fail(err)
		return c
	}
	for i := range cookies {
		cookies[i] = expose()
	}
	scrape()
	want(live, regions)
	want(`rds_memory_regions{pool="large",state="live"}`, 0)
	want(`rds_memory_pinned_bytes{pool="small"}`, regions*4096)

	freed := 0
	for seen := 0.0; seen == 0; seen = value(dirty) { // a region freed lazily is dirty until the daemon gets round to it
		fail(ctx.Err())
		fail(app.FreeMR(expose(), 0))
		freed++
		scrape()
	}
	for _, c := range cookies[:regions-1] {
		fail(app.FreeMR(c, 0))
	}
	fail(app.FreeMR(0, rds.MRInvalidate))
	freed += regions - 1
	scrape()
	want(live, 1)
	want(dirty, 0)
	want(invalidations, float64(freed))
	want(sizeSum, float64(freed))
	n := value(batches)
	want(sizes, n)
	want(graces, n)
	want(`rds_memory_batch_regions_bucket{le="+Inf"}`, n)
	want(`rds_memory_grace_seconds_bucket{le="+Inf"}`, n)
	if c, s, single := value(clean), value("rds_memory_grace_seconds_sum"), value(`rds_memory_batch_regions_bucket{le="1"}`); n == 0 || c == 0 || s <= 0 || single >= n {
		t.Errorf("%g batches, %g of one region, which took %g s; %g clean bases", n, single, s, c)
	}

	const right = `rds_memory_bad_keys_total{reason="mr: right missing"}`
	const denied = `rds_memory_bad_keys_total{reason="mr: access denied"}` // a dead key, among other reasons
	want(right, 0)
	want(denied, 0)
	for token, x := range []struct {
		cookie rds.Cookie
		write  bool
	}{{cookies[regions-1], true}, {cookies[0], false}} { // a write without the right, a read by a key that was freed
		for status := rds.StatusAgain; status == rds.StatusAgain; { // the peer's socket is held back after a refusal
			fail(peer.SendMessage(ctx, &rds.Outgoing{To: app.LocalAddrPort(), Notify: true, Token: uint64(token), RDMA: &rds.RDMA{Cookie: x.cookie, Local: [][]byte{make([]byte, 8)}, Write: x.write, Silent: true}}))
			m, err := peer.Recv(ctx)
			if fail(err); m.Kind != rds.KindStatus || m.Status != rds.StatusRemoteError && m.Status != rds.StatusAgain {
				t.Fatalf("%v", &m)
			}
			status = m.Status
		}
	}
	scrape()
	want(right, 1)
	want(denied, 1)
	terminate(t, d)
}
