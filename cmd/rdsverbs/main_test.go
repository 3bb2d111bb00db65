package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent() // gnet's worker pool
	status := clitest.Main(m, &bin, "./cmd/rdsverbs")
	if status == 0 {
		if err := goleak.Find(before); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// within bounds a whole test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// openDevice is a device on the network in memory of a test in a bubble.
func openDevice(t *testing.T, cfg iwarp.Config) *iwarp.Device {
	t.Helper()
	cfg.Network = memnet.Of(t)
	dev, err := iwarp.Open(cfg)
	rdstest.Must(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// anyPort is on loopback.
var anyPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)

// testTerms are those of most tests.
func testTerms(reads int, crc bool) terms {
	return terms{crc: onOff(crc), ird: reads, ord: reads, timeout: cli.Interval(20 * time.Second)}
}

// transcript is the output of a command as JSON objects.
type transcript struct {
	mu   sync.Mutex
	data bytes.Buffer  // guarded by mu
	more chan struct{} // guarded by mu; closed by the next Write
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	return w.data.Write(b)
}

// await waits until there are n records of a type, and returns them.
func (w *transcript) await(t *testing.T, kind string, n int) []record {
	t.Helper()
	ctx := within(t)
	for {
		w.mu.Lock()
		if w.more == nil {
			w.more = make(chan struct{})
		}
		more := w.more
		w.mu.Unlock()
		if list := w.of(t, kind); len(list) >= n {
			return list
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("no %d of %s in\n%s", n, kind, w)
		}
	}
}

func (w *transcript) printer() *printer { return &printer{w: w, json: true} }

// record is a line of any type.
type record struct {
	Type       string
	Connection int
	Index      int
	Op         string
	Count      int
	Status     string
	Vendor     string
	Length     int
	Hash       string
	Value      string
	Immediate  string
	Name       string
	Key        string
	Address    string
	Role       string
	Number     int
	Data       string
	Pings      int
	Messages   int
	Dropped    int
	Size       int
	CRC        bool
	Clean      bool
	Flushed    int
	Error      string
	Solicited  bool
	Terminate  *terminate
	Events     []event
	// Invalidated is the key a message took with it.
	Invalidated string
}

// of returns the records of a type, so far.
func (w *transcript) of(t *testing.T, kind string) []record {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []record
	for line := range bytes.Lines(w.data.Bytes()) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Type == kind {
			list = append(list, r)
		}
	}
	return list
}

// last returns the last record of a type.
func (w *transcript) last(t *testing.T, kind string) record {
	t.Helper()
	list := w.of(t, kind)
	if len(list) == 0 {
		t.Fatalf("no %s in\n%s", kind, w)
	}
	return list[len(list)-1]
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data.String()
}
