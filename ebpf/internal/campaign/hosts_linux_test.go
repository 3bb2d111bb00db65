package campaign

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

var bin clitest.Bin

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, &bin, "./cmd/rdsd", "./cmd/rdsinfo", "./cmd/rdsfault"))
}

// long is whether campaigns have their full length.
var long = os.Getenv("RDS_LONG") != ""

// patience bounds waits of tests that fail.
const patience = 30 * time.Second

// pairs is the number of sockets on each side. Each sends to one of the other side.
const pairs = 4

// hosts are two hosts with an rdsd each, and sockets of applications.
type hosts struct {
	*testing.T
	a, b    *netlab.Host
	control [2]string
	sockets [2][pairs]*rds.Socket

	received atomic.Int64  // messages that have been verified
	progress chan struct{} // cap 1: received has changed
	stop     chan struct{} // closed: send no more
	failed   context.Context
	fail     context.CancelCauseFunc
	work     sync.WaitGroup
	sent     [2][pairs]uint64 // messages sent, when work is done
	got      [2][pairs]uint64 // messages received, when work is done
}

// newHosts starts the daemons, on a wire, and the traffic between them.
func newHosts(t *testing.T, wire string, args ...string) *hosts {
	t.Helper()
	h := &hosts{T: t, progress: make(chan struct{}, 1), stop: make(chan struct{})}
	h.a, h.b = netlab.Pair(t)
	dir := rdstest.Dir(t)
	for i, host := range []*netlab.Host{h.a, h.b} {
		attach := filepath.Join(dir, strconv.Itoa(i))
		h.control[i] = attach + ".control"
		cmd := host.Args(append([]string{bin.Path("rdsd"), "--listen", host.IP4.String(), "--wire", wire, "--socket", attach, "--control", h.control[i]}, args...)...)
		d := clitest.Start(t, cmd[0], cmd[1:]...)
		d.Line(d.Stderr, "ready")
		c, err := rds.Dial(attach)
		rdstest.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for j := range pairs {
			if h.sockets[i][j], err = c.Bind(netip.AddrPortFrom(host.IP4, uint16(4000+j))); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.failed, h.fail = context.WithCancelCause(t.Context())
	for i, to := range []*netlab.Host{h.b, h.a} {
		for j := range pairs {
			h.work.Go(func() { h.check(h.send(i, j, netip.AddrPortFrom(to.IP4, uint16(4000+j)))) })
			h.work.Go(func() { h.check(h.receive(i, j)) })
		}
	}
	h.flows(100)
	return h
}

func (h *hosts) check(err error) {
	if err != nil {
		h.fail(err)
	}
}

// message is message n of a socket, whose last 8 octets and number tell everything.
func message(from, j int, n uint64) []byte {
	r := rand.New(rand.NewPCG(n, uint64(from*pairs+j)))
	size := 24 + r.IntN(1000)
	switch n % 16 {
	case 0:
		size = 150_000
	case 1, 2:
		size = 8 << 10
	}
	b := make([]byte, size)
	binary.NativeEndian.PutUint64(b, n)
	x := r.Uint64()
	for i := 8; i+8 <= len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], x)
		x = x*6364136223846793005 + 1442695040888963407
	}
	return b
}

// send sends messages until stop, at a rate that leaves the processors some time, and then
// one with nothing but the number of messages.
func (h *hosts) send(i, j int, to netip.AddrPort) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		var b []byte
		select {
		case <-h.stop:
			b = binary.NativeEndian.AppendUint64(nil, n)
		case <-tick.C:
			b = message(i, j, n)
		}
		if err := h.sockets[i][j].Send(h.failed, to, b); err != nil {
			return fmt.Errorf("message %d of socket %d of host %d: %w", n, j, i, err)
		}
		if len(b) == 8 {
			h.sent[i][j] = n
			return nil
		}
	}
}

func (h *hosts) receive(i, j int) error {
	for n := uint64(0); ; n++ {
		m, err := h.sockets[i][j].Recv(h.failed)
		if err != nil {
			return fmt.Errorf("message %d to socket %d of host %d: %w", n, j, i, err)
		}
		number := binary.NativeEndian.Uint64(m.Data)
		last := len(m.Data) == 8
		same := last || string(m.Data) == string(message(1-i, j, n))
		size := len(m.Data)
		m.Release()
		if number != n {
			return fmt.Errorf("PROMISE: socket %d of host %d: message %d instead of %d", j, i, number, n)
		}
		if !same {
			return fmt.Errorf("socket %d of host %d: message %d (%d octets) is not as it was sent", j, i, n, size)
		}
		if last {
			h.got[i][j] = n
			return nil
		}
		h.received.Add(1)
		select {
		case h.progress <- struct{}{}:
		default:
		}
	}
}

// flows waits until so many more messages have arrived.
func (h *hosts) flows(n int64) {
	h.Helper()
	want := h.received.Load() + n
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for h.received.Load() < want {
		select {
		case <-h.progress:
		case <-h.failed.Done():
			h.Fatal(context.Cause(h.failed))
		case <-timeout.C:
			h.Fatalf("%d of %d messages in %v", h.received.Load()-want+n, n, patience)
		}
	}
}

// pass lets the traffic go on for a time.
func (h *hosts) pass(d time.Duration) {
	h.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.failed.Done():
		h.Fatal(context.Cause(h.failed))
	}
}

// hits lets the traffic go on until the fault has hit a packet. A burst that is cut into
// packets later is hit or missed as one, so a low rate can take a while.
func (h *hosts) hits(r *ebpf.FaultRule) {
	h.Helper()
	for {
		c, err := r.Counts()
		h.check(err)
		if c.Hit > 0 {
			return
		}
		if r.Ended() {
			h.Fatalf("none of %d packets was hit", c.Seen)
		}
		h.pass(10 * time.Millisecond)
	}
}

// finish ends the traffic: everything sent has to arrive, once.
func (h *hosts) finish() {
	h.Helper()
	close(h.stop)
	done := make(chan struct{})
	go func() { h.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		h.fail(fmt.Errorf("not all has arrived after %v", patience))
		<-done
	}
	if err := context.Cause(h.failed); err != nil {
		h.Fatal(err)
	}
	var total uint64
	for i := range h.sent {
		for j, n := range h.sent[i] {
			if total += n; h.got[1-i][j] != n {
				h.Errorf("%d messages sent, %d received", n, h.got[1-i][j])
			}
		}
	}
	h.Logf("%d messages, 0 lost, 0 doubled", total)
}

// fault makes faults on the link of host a.
func (h *hosts) fault() *ebpf.Fault {
	h.Helper()
	f, err := ebpf.NewFault(ebpf.FaultOptions{Netns: h.a.Netns(), Interface: "eth0"})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, ebpf.ErrPermission) {
		h.Skipf("needs a kernel with tcx, and the right to load programs: %v", err)
	}
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { f.Close() })
	return f
}

// begin checks that a fault has begun.
func (h *hosts) begin(r *ebpf.FaultRule, err error) *ebpf.FaultRule {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// counter is the sum of a counter of both daemons.
func (h *hosts) counter(name string) (sum int) {
	h.Helper()
	for _, control := range h.control {
		status, out, stderr := clitest.Run(h.T, bin.Path("rdsinfo"), "--control", control, "-c")
		m := regexp.MustCompile(`(?m)\b` + name + `\s+(\d+)`).FindStringSubmatch(out)
		if status != 0 || m == nil {
			h.Fatalf("no counter %s: status %d, %s%s", name, status, out, stderr)
		}
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	return sum
}

// eachWire runs a campaign on both wires.
func eachWire(t *testing.T, f func(t *testing.T, wire string)) {
	t.Parallel()
	for _, wire := range []string{"tcp", "xrc"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			f(t, wire)
		})
	}
}
