//go:build live

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
)

// Margins of a daemon's use of the machine 10 s after an attack over its use before.
const (
	memoryMargin     = 48 << 20               // 2,000 peers that stayed would be 100 MiB
	descriptorMargin = 8                      // the honest peers' last links may still be open
	cpuMargin        = 250 * time.Millisecond // CPU time in one second
)

// footprint is what a process uses of the machine.
type footprint struct {
	memory      int // resident set, in bytes
	descriptors int
	cpu         time.Duration // user and system time since the start
}

// used reads the footprint of a process from /proc.
func used(t *testing.T, pid int) (u footprint) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(proc + "fd")
	must(t, err)
	u.descriptors = len(fds)
	statm, err := os.ReadFile(proc + "statm")
	must(t, err)
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
	u.memory = pages * os.Getpagesize()
	stat, err := os.ReadFile(proc + "stat")
	must(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, f := range fields[11:13] { // utime and stime, in 1/100 s
		ticks, _ := strconv.Atoi(f)
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	return u
}

// second is the CPU time that a process uses in a second.
func second(t *testing.T, pid int) time.Duration {
	before := used(t, pid).cpu
	<-time.After(time.Second)
	return used(t, pid).cpu - before
}

// oneShots makes connections that end with a reset behind what is said first: a probe on the
// port of RDS/TCP, a whole set-up on that of XRC.
type oneShots struct {
	at   netip.Addr
	port uint16
	xrc  *xrc.Transport
	made [2]atomic.Int64 // number of links made over RDS/TCP and over XRC
}

func (o *oneShots) tcp(ctx context.Context, from netip.Addr) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(o.at, o.port).String())
	if err != nil {
		return
	}
	h := wire.Header{Sequence: 1, Sport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: 1, Generation: rand.Uint32() | 1}.Put(&h.Extensions)
	_ = c.(*net.TCPConn).SetLinger(0)
	if _, err := c.Write(h.AppendTo(nil)); err == nil {
		o.made[0].Add(1)
	}
	_ = c.Close()
}

func (o *oneShots) setUp(ctx context.Context, from netip.Addr) {
	l, err := o.xrc.Dial(ctx, from, o.at, 0)
	if err != nil {
		return
	}
	o.made[1].Add(1)
	l.Close(transport.Abort)
}

// from makes n connections, each from an address that nobody else has.
func (o *oneShots) from(ctx context.Context, first, n int) {
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := k; i < n; i += 8 {
				x := first + i
				from := netip.AddrFrom4([4]byte{127, 128 + byte(x>>16), byte(x >> 8), byte(x)})
				if k%2 == 0 {
					o.tcp(ctx, from)
				} else {
					o.setUp(ctx, from)
				}
			}
		})
	}
	all.Wait()
}

// quiet returns when a daemon knows of nobody, and how long that took.
func quiet(ctx context.Context, t *testing.T, ctl string) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		info, err := rds.FetchInfo(ctx, ctl)
		must(t, err)
		if info.Peers.Peers == 0 && info.Peers.Strangers == 0 && len(info.Connections) == 0 {
			return time.Since(start)
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%+v and %d connections 10 s later", info.Peers, len(info.Connections))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// 5,000 one-shot connections from as many addresses, on both ports of a daemon, leave its
// memory, descriptors and CPU at the base line, and no connections. Peers that are new have
// their answers meanwhile. RDS_LONG=1 has 20,000 of them.
func TestOneShotConnectionsLeaveTheDaemonAtItsBaseLine(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	n := 5000
	if os.Getenv("RDS_LONG") != "" {
		n = 20_000
	}
	const address, port = "127.22.57.5", 17257
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	d := daemonAt(t, "--listen", address, "--port", strconv.Itoa(port), "--control", ctl)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	xrc, err := xrc.New(xrc.Options{Port: port ^ 1, Config: iwarp.Config{EventLoops: 1}, Generation: 7})
	must(t, err)
	defer xrc.Close()
	attack := oneShots{at: netip.MustParseAddr(address), port: port, xrc: xrc}
	attack.from(ctx, 0, 400) // what is made once is there
	quiet(ctx, t, ctl)
	base, idle := used(t, d.PID()), second(t, d.PID())

	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		attack.from(ctx, 1000, n)
	}()
	pings := 0
	for over := false; !over || pings < 4; pings++ {
		from, w := fmt.Sprintf("127.22.58.%d", 1+pings%250), []string{"tcp", "xrc"}[pings%2]
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsping"), "--provider", "node", "--port", strconv.Itoa(port), "--wire", w, "-c", "1", "-W", "20s", "-I", from, address)
		if status != 0 {
			t.Errorf("a new peer has no answer over %s: %s%s", w, stdout, stderr)
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
	took := time.Since(start)
	wait := quiet(ctx, t, ctl)
	var after footprint
	for deadline := time.Now().Add(10*time.Second - wait); ; <-time.After(100 * time.Millisecond) {
		after = used(t, d.PID())
		if after.memory <= base.memory+memoryMargin && after.descriptors <= base.descriptors+descriptorMargin {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("PROMISE: %d bytes and %d descriptors 10 s later, %d and %d before", after.memory, after.descriptors, base.memory, base.descriptors)
			break
		}
	}
	busy := second(t, d.PID())
	if busy > idle+cpuMargin {
		t.Errorf("%v of CPU in a second, %v before", busy, idle)
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-n")
	if status != 0 || regexp.MustCompile(`127\.(12[89]|1[3-9]\d|2\d\d)\.`).MatchString(stdout) {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	made := [2]int64{attack.made[0].Load(), attack.made[1].Load()}
	if made[0]+made[1] < int64(n)*9/10 {
		t.Errorf("only %d connections were made", made)
	}
	t.Logf("%d connections on the ports of RDS/TCP and XRC and %d honest peers in %v; %d KiB (%d before), %d descriptors (%d before), %v CPU in a second (%v before)",
		made, pings, took, after.memory>>10, base.memory>>10, after.descriptors, base.descriptors, busy, idle)
}
