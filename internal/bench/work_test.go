//go:build live

package bench

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// serve runs a server on 127.0.0.2, in this process, and returns options that
// reach it. Tests on it do not run in parallel: works take ports as they come.
func serve(t *testing.T) Options {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(serverIP, 0).String())
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		t.Skipf("needs a second loopback address, %v: %v", serverIP, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		s := Server{IP: serverIP}
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	o := goodOptions()
	o.Server, o.Listen = l.Addr().String(), clientIP
	if o.Port, err = freePort(0, clientIP, serverIP); err != nil {
		t.Fatal(err)
	}
	o.Duration, o.Warmup = 30*time.Millisecond, 10*time.Millisecond
	return o
}

func TestWorks(t *testing.T) {
	o := serve(t)
	o.Repeat = 2
	works := []Work{
		{Kind: Sockets, Sockets: 100, Batch: 1},
		{Kind: Latency, Size: 64, Batch: 1, Baseline: true},
		{Kind: Latency, Size: 0, Batch: 1, Baseline: true},
		{Kind: Latency, Size: 100000, Batch: 1, ZeroCopy: true},
		{Kind: Latency, Size: 64, Batch: 1, Rate: 500},
		{Kind: OneWay, Size: 64, Batch: 1, Baseline: true},
		{Kind: OneWay, Size: 0, Batch: 1, Baseline: true},
		{Kind: OneWay, Size: 64, Batch: 64},
		{Kind: OneWay, Size: 100000, Batch: 4, ZeroCopy: true, Baseline: true},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 4, Peers: 3, Baseline: true},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 3, Batch: 1, Sockets: 2, Peers: 5},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 4, Peers: 4, Stopped: 1},
		{Kind: Fetch, Size: 8192, Depth: 32, Batch: 8, Baseline: true},
		{Kind: Fetch, Size: 100, Depth: 1, Batch: 1},
		{Kind: Stress, Size: 64, Sizes: []int{32, 64, 100001}, Reply: 99, Depth: 4, Batch: 4, Sockets: 3, Peers: 2},
	}
	var runs []string
	r := Runner{Options: o, Progress: func(_, _ int, what string) { runs = append(runs, what) }}
	rep, err := r.Run(context.Background(), works)
	rdstest.Must(t, err)
	if len(runs) != 2*len(works)+2*8 {
		t.Errorf("runs %q", runs)
	}
	checkRows(t, rep, works)
}

// checkRows checks a report of works, each done twice.
func checkRows(t *testing.T, rep *Report, works []Work) {
	t.Helper()
	if len(rep.Rows) != len(works) {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		w := row.Work
		if !row.Finished || row.Runs != 2 || row.RDS.Messages == 0 || row.RDS.Rate <= 0 || row.Note != "" {
			t.Errorf("%s: %+v", row.Title, row)
		}
		if w.Kind != Sockets && row.RDS.TCPConns != 1 {
			t.Errorf("%s: %d TCP connections", row.Title, row.RDS.TCPConns)
		}
		if round := w.Kind != OneWay && w.Kind != Sockets; round != (row.RDS.Latency != nil) {
			t.Errorf("%s: latency %v", row.Title, row.RDS.Latency)
		}
		if (row.TCP != nil) != (row.RatioOf != "") {
			t.Errorf("%s: ratio of %q", row.Title, row.RatioOf)
		}
	}
}

// With --server both sides attach to the daemons that run on their hosts.
func TestWorksOfRunningDaemons(t *testing.T) {
	o := serve(t)
	o.Repeat, o.Provider = 2, rds.ProviderDaemon
	dir := rdstest.Dir(t)
	o.Socket = filepath.Join(dir, "client")
	t.Setenv("RDS_SOCKET", filepath.Join(dir, "server")) // where the server looks
	for ip, path := range map[netip.Addr]string{clientIP: o.Socket, serverIP: os.Getenv("RDS_SOCKET")} {
		d, err := startRDSD(rds.Config{}, ip, &hello{Port: o.Port, Paths: 1, Socket: path})
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("needs Linux, for shared memory with rdsd: ", err)
		}
		rdstest.Must(t, err)
		t.Cleanup(func() { d.close() })
	}
	works := []Work{
		{Kind: Latency, Size: 64, Batch: 1, Baseline: true},
		{Kind: OneWay, Size: 100000, Batch: 4, ZeroCopy: true},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 4, Peers: 3},
		{Kind: Stress, Size: 64, Sizes: []int{32, 64, 100001}, Reply: 99, Depth: 4, Batch: 4, Sockets: 3, Peers: 2},
	}
	rep, err := (&Runner{Options: o}).Run(context.Background(), works)
	rdstest.Must(t, err)
	checkRows(t, rep, works)
}

// A verified stress with operations, with a server that keeps no files.
func TestSoakOfARunningServer(t *testing.T) {
	o := serve(t)
	o.Ops, o.Repeat, o.Sockets, o.Peers, o.Depth, o.Batch = true, 2, 2, 3, 4, 4
	o.Sizes, o.Reply, o.Duration, o.Wire = []int{64, 100001}, 100, 200*time.Millisecond, string(rds.WireXRC)
	rdstest.Must(t, o.Validate(Stress))
	rep, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(Stress))
	rdstest.Must(t, err)
	row := rep.Rows[0]
	if a := row.RDS.Account; !row.Finished || row.Runs != 2 || row.RDS.Messages == 0 || row.RDS.TCPConns != 1 || a.Replies == 0 || a.Regions == 0 || a.Dropped > 0 {
		t.Errorf("%+v, %+v", row, a)
	}
}

// What is set for TCP is set for both transports.
func TestTCPSettings(t *testing.T) {
	o := serve(t)
	o.Congestion, o.Buffers = defaultCongestion(), Buffers{Send: 128 << 10, Receive: 128 << 10}
	o.Baseline, o.Sizes = true, []int{8 << 10}
	r := Runner{Options: o}
	rep, err := r.Run(context.Background(), o.Plan(OneWay))
	if err != nil || rep.Rows[0].TCP == nil {
		t.Errorf("%v, %+v", err, rep)
	}
	o.Congestion = "nonsense"
	if _, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(OneWay)); err == nil {
		t.Error("a congestion control of no name was taken")
	}
}

func TestStressFindsFaults(t *testing.T) {
	for fault, want := range map[Fault]string{FaultCorrupt: "payload at byte", FaultSkip: "number is"} {
		o := serve(t)
		o.Duration = time.Minute // it ends by the fault
		o.Fault = fault
		o.Sizes = []int{64, 1000}
		r := Runner{Options: o}
		rep, err := r.Run(context.Background(), o.Plan(Stress))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fault, err)
		}
		if len(rep.Rows) != 0 {
			t.Errorf("%s: a result: %+v", fault, rep.Rows)
		}
	}
}

// interrupted has a run interrupted in its first work. It is interrupted later when there are
// no figures yet, as on a busy machine.
func interrupted(t *testing.T, o Options, works []Work) {
	t.Helper()
	o.Duration = 10 * time.Minute
	for wait := 100 * time.Millisecond; !t.Failed(); wait *= 4 {
		ctx, cancel := context.WithCancel(context.Background())
		r := Runner{Options: o, Progress: func(int, int, string) { time.AfterFunc(wait, cancel) }}
		rep, err := r.Run(ctx, works)
		if !errors.Is(err, ErrInterrupted) {
			t.Fatalf("%s: %v", works[0].Kind, err)
		}
		if len(rep.Rows) == 1 && !rep.Rows[0].Finished && rep.Rows[0].Runs == 1 && rep.Rows[0].RDS.Messages > 0 {
			return
		}
		if wait > time.Minute {
			t.Errorf("%s: %+v", works[0].Kind, rep.Rows)
		}
	}
}

// An interrupt ends the run early and its figures remain.
func TestInterruptKeepsWhatThereIs(t *testing.T) {
	for _, kind := range []Kind{Latency, OneWay, Mux} {
		o := serve(t)
		o.Repeat = 3
		interrupted(t, o, append(o.Plan(kind), o.Plan(OneWay)...))
	}
}

func TestServerRefusesNonsense(t *testing.T) {
	o := serve(t)
	c, err := net.Dial("tcp", o.Server)
	rdstest.Must(t, err)
	k := newController("server", c)
	defer k.close()
	good := &hello{Version: controlVersion, Provider: "node", Port: o.Port, Paths: 1}
	for _, q := range []struct {
		request
		want string
	}{
		{request{Op: "x"}, "unknown operation"},
		{request{Op: opServe, Hello: good}, "unknown operation"}, // that is for a parent only
		{request{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1}}, "before hello"},
		{request{Op: opConfirm}, "without a work"},
		{request{Op: opHello}, "version"},
		{request{Op: opHello, Hello: &hello{Version: controlVersion + 1}}, "version"},
		{request{Op: opHello, Hello: &hello{Version: controlVersion, Paths: 3}}, "Paths"},
		{request{Op: opHello, Hello: good}, ""},
		{request{Op: opHello, Hello: good}, "second hello"},
		{request{Op: opSoak}, "out of bounds"},
		{request{Op: opSoak, Soak: &soakSpec{Work: soakWork(), Server: true, Journal: os.TempDir()}}, "out of bounds"}, // only a parent may say where files are
		{request{Op: opSoak, Soak: &soakSpec{Work: &Work{Kind: Stress, Ops: true, Sockets: 1, Peers: 1, Depth: 1 << 30, Reply: 128}}}, "out of bounds"},
		{request{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1, Size: 2 << 20}}, "out of bounds"},
		{request{Op: opOpen, Work: &Work{Kind: OneWay}}, "out of bounds"},
		{request{Op: opOpen, Work: &Work{Kind: Mux, Batch: 1, Peers: 1 << 30}}, "out of bounds"},
		{request{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1}}, ""},
		{request{Op: opOpen, Work: &Work{Kind: OneWay, Batch: 1}}, "still open"},
		{request{Op: opSnap}, ""},
		{request{Op: opClose}, ""},
		{request{Op: opBye}, ""},
	} {
		_, err := k.call(q.request)
		if (err == nil) != (q.want == "") || err != nil && !strings.Contains(err.Error(), q.want) {
			t.Errorf("%s: %v, want %q", q.Op, err, q.want)
		}
	}
}

func TestRunnerReportsAMissingServer(t *testing.T) {
	o := serve(t)
	o.Server = "127.0.0.2:1"
	r := Runner{Options: o}
	if _, err := r.Run(context.Background(), o.Plan(Latency)); err == nil {
		t.Error("no error")
	}
}
