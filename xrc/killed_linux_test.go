//go:build live

package xrc

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// hostProcess is such a process. Clients are killed with it.
type hostProcess struct {
	*worker
	path string
	addr netip.Addr
}

// start starts the host's process, which takes the place of one that was killed.
func (h *hostProcess) start(l *rdstest.Lab) {
	l.Helper()
	h.worker = startProcess(l, nil, hostRole, h.path, h.addr.String(), strconv.Itoa(int(l.Port)))
	h.hear("ready")
}

// has is how many sessions and initiators the host has.
func (h *hostProcess) has() (sessions, initiators int) {
	h.Helper()
	fmt.Fprintln(h.in, "has")
	if _, err := fmt.Sscan(h.hear("has"), &sessions, &initiators); err != nil {
		h.Fatal(err)
	}
	return sessions, initiators
}

// client starts a process that connects to a service from the host.
func (h *hostProcess) client(to netip.Addr) *worker {
	h.Helper()
	return startProcess(h, nil, h.path, "7", to.String())
}

// resources is the memory and the descriptors that this process has, when what is no longer used is given back.
func resources(t testing.TB) (heap, resident int64, files int) {
	t.Helper()
	heap = rdstest.Heap()
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	var size int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return heap, resident * int64(os.Getpagesize()), len(list)
}

// crowd has clients of a host live for a moment, some together.
func (h *hostProcess) crowd(ctx context.Context, t *testing.T, far netip.Addr, n, together int) {
	places := make(chan struct{}, together)
	var crowd sync.WaitGroup
	for k := range n {
		places <- struct{}{}
		crowd.Go(func() {
			defer func() { <-places }()
			most := 60 * time.Millisecond
			client := exec.Command(os.Args[0], h.path, "7", far.String())
			client.Env = append(os.Environ(), workerEnv+"=1")
			out, err := client.StdoutPipe()
			if err == nil {
				err = client.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			if k%2 == 0 { // every other one has used its target
				most = 10 * time.Millisecond
				if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "served ") {
					t.Errorf("a client says %q, %v", line, err)
				}
			}
			at, stop := context.WithTimeout(ctx, rand.N(most)) // the random point
			defer stop()
			<-at.Done()
			_ = client.Process.Kill()
			_ = client.Wait()
		})
	}
	crowd.Wait()
}

// Clients connect, use a target, and are killed at random points; every 50, or 200 with RDS_LONG, the daemon of their
// host is killed with those that are left, and started again. The process that serves them reads no events and cleans nothing
// up: nothing is left of them, and the next one is served at once. It is 10,000 of them with RDS_LONG. Not parallel: it
// measures the memory of the process, which is the daemon that serves them.
func TestXRCREQ34KilledClientsLeaveNothing(t *testing.T) {
	clients, ofOne := 200, 50
	if os.Getenv("RDS_LONG") != "" {
		clients, ofOne = 10_000, 200
	}
	l := rdstest.NewLab(t)
	near := &hostProcess{path: filepath.Join(t.TempDir(), "s"), addr: rdstest.NewAddr()}
	far := newHost(t, &l)
	a := newProcess(t, far, nil, 64, 128)
	a.advertise(t, 7)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { drain(ctx, a, 64) })
	const together = 4
	crowd := func(n int) { near.crowd(ctx, t, far.addr, n, together) }
	near.start(&l)
	// Clients and a daemon before, so that the path and its queues are there.
	disaster := func() {
		var served [together]*worker
		for k := range served {
			served[k] = near.client(far.addr)
			served[k].hear("served")
		}
		near.kill()
		for _, c := range served {
			c.kill()
		}
		near.start(&l)
	}
	gone := func() {
		t.Helper()
		c := near.client(far.addr) // and the path is that of the host's last daemon
		c.hear("served")
		c.kill()
		rdstest.Eventually(t, "nothing to be left", func() bool {
			sessions, initiators := near.has()
			s := far.node.Xrc.Objects().Stats()
			return sessions == 1 && initiators == 1 && s.TotalTargets() == 1 && s.Suspended == 0 // the path's own
		})
	}
	crowd(20)
	disaster()
	gone()
	heap, resident, files := resources(t)
	began := time.Now()
	for n := 0; n < clients; n += ofOne {
		crowd(ofOne - together)
		disaster()
		if n%2000 == 0 && clients > 2000 {
			t.Logf("%d clients: %d KiB of heap", n+ofOne, rdstest.Heap()>>10)
		}
	}
	took := time.Since(began)
	gone()
	var heapAfter, residentAfter int64
	var filesAfter int
	rdstest.Eventually(t, "memory and descriptors at the base line", func() bool {
		heapAfter, residentAfter, filesAfter = resources(t)
		return heapAfter <= heap+1<<20+int64(100*clients) && residentAfter <= resident+32<<20 && filesAfter <= files
	})
	t.Logf("%d clients in %v: heap %+d KiB from %d, resident %+d KiB from %d, descriptors %+d from %d, %+v", clients, took,
		(heapAfter-heap)>>10, heap>>10, (residentAfter-resident)>>10, resident>>10, filesAfter-files, files, far.node.Xrc.Objects().Stats())
	began = time.Now()
	near.client(far.addr).hear("served")
	if took := time.Since(began); took > 10*time.Second { // a third of the grace of a lost connection
		t.Errorf("the next client waits %v", took)
	} else {
		t.Logf("the next client is served in %v", took)
	}
	cancel()
	work.Wait()
}
