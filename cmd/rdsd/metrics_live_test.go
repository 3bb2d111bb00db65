//go:build live

package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/rds-go/rds/internal/cli/clitest"
)

func TestMetricsHandler(t *testing.T) {
	t.Parallel()
	h, err := metricsHandler(constant(busy()), zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, metricsPath, nil))
	for _, want := range []string{"\nrds_sessions 3\n", "\ngo_goroutines ", "rds_send_queued_total 12\n"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("status %d, no %q", w.Code, want)
		}
	}
}

func TestMetricsServer(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	// Not a port that the system gives away: somebody else might have it after
	// Close, or Dial connect to itself there.
	taken, err := net.Listen("tcp", "127.22.12.1:9464")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	if _, err := serveMetrics(addr, constant(busy()), zap.NewNop()); err == nil {
		t.Fatal("no error although the address is taken")
	}
	taken.Close()
	m, err := serveMetrics(addr, constant(busy()), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{"/metrics": 200, "/": 404, "/debug/pprof/": 404} {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != status || (status == 200) != strings.Contains(string(body), "rds_sessions 3") {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, status)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still listening after Close")
	}
}
