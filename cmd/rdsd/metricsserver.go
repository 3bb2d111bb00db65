package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/rds-go/rds/rds"
)

// Bounds on what a client can make the metrics cost.
const (
	metricsPath    = "/metrics"
	metricsTimeout = 10 * time.Second // limit of a request, and also of its answer
	metricsScrapes = 4                // scrapes at a time
)

// metricsServer answers Prometheus.
type metricsServer struct {
	http   http.Server
	l      *net.TCPListener
	served chan struct{} // closed by the goroutine that accepts
}

// serveMetrics shows what info returns on an address, until Close.
func serveMetrics(addr string, info func() (rds.Info, error), log *zap.Logger, more ...prometheus.Collector) (*metricsServer, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return serveMetricsOn(l.(*net.TCPListener), info, log, more...)
}

// serveMetricsOn is serveMetrics on a listener, which it closes.
func serveMetricsOn(l *net.TCPListener, info func() (rds.Info, error), log *zap.Logger, more ...prometheus.Collector) (*metricsServer, error) {
	h, err := metricsHandler(info, log, more...)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, h)
	m := &metricsServer{l: l, served: make(chan struct{})}
	m.http = http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: zap.NewStdLog(zap.NewNop()), // a client's mistakes are told to that client only
	}
	go func() {
		defer close(m.served)
		_ = m.http.Serve(l) // ends when Close closes the listener
	}()
	log.Info("metrics", zap.Stringer("address", l.Addr()))
	return m, nil
}

// metricsHandler shows the daemon, its process, the Go runtime, and what more collects.
func metricsHandler(info func() (rds.Info, error), log *zap.Logger, more ...prometheus.Collector) (http.Handler, error) {
	r := prometheus.NewRegistry()
	for _, c := range append([]prometheus.Collector{
		newCollector(info), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, more...) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	errorLog, err := zap.NewStdLogAt(log, zap.WarnLevel)
	if err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog: errorLog, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: metricsScrapes,
	}), nil
}

// Close cuts the clients off.
func (m *metricsServer) Close() error {
	err := m.http.Close()
	<-m.served
	return err
}

// File returns a descriptor of the listening socket, to be passed to a successor.
func (m *metricsServer) File() (*os.File, error) { return m.l.File() }

// Owns is false: there is no file.
func (m *metricsServer) Owns() bool { return false }

// Leave has scrapes under way end. The socket is the successor's.
func (m *metricsServer) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.http.Shutdown(ctx)
}
