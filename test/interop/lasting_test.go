//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// long tells whether what takes minutes is to run at its full length.
func long() bool { return os.Getenv("RDS_LONG") != "" }

// TestLasting shows to a guest what lasts: restarts and upgrades of rdsd in a row, receivers
// that do not read, questions for XRC. RDS_LONG=1 has 20 of each kind, restarts also at 50,000
// messages a second, pauses of 5 minutes with the default limit of silence, and
// 7 minutes of questions.
func TestLasting(t *testing.T) {
	l := newLab(t, 1)
	guest := l.boot(t, 0, guestAddr)
	restarts := []plannedRestarts{
		{addr: "10.77.5.1", paths: 1, times: 2, rate: 50_000, size: 64, count: 5000, guest: true},
		{addr: "10.77.205.1", paths: 8, times: 2, rate: 50_000, size: 64, count: 5000},
	}
	if long() {
		restarts = nil
		for _, guest := range []bool{true, false} {
			for _, addr := range []string{"10.77.5.1", "10.77.205.1"} {
				for _, paths := range []int{1, 8} {
					restarts = append(restarts,
						plannedRestarts{addr: addr, paths: paths, times: 20, rate: 1000, size: 1000, count: 1000, guest: guest},
						plannedRestarts{addr: addr, paths: paths, times: 20, rate: 50_000, size: 64, count: 10_000, guest: guest})
				}
			}
		}
	}
	for i, c := range restarts {
		addr := netip.MustParseAddr(c.addr)
		for range i { // each case has one that the guest does not know
			addr = addr.Next()
		}
		from := "node"
		if c.guest {
			from = "guest"
		}
		t.Run(fmt.Sprintf("restarts/from-%s/%v-%d-%d", from, addr, c.paths, c.rate), func(t *testing.T) {
			if !long() {
				t.Parallel()
			}
			c.run(t, l, guest, addr)
		})
	}
	for name, c := range map[string]upgrades{
		"upgrades-1": {addr: "10.77.16.1", witness: "10.77.17.1", paths: 1},
		"upgrades-8": {addr: "10.77.216.1", witness: "10.77.217.1", paths: 8},
	} {
		c.times, c.rate, c.count = 4, 1000, 1000
		if long() {
			c.times = 20
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, l, guest)
		})
	}
	pause, limits := 5*time.Second, "silence = \"1s\"\n"
	if long() {
		pause, limits = 5*time.Minute, ""
	}
	t.Run("paused/node", func(t *testing.T) {
		t.Parallel()
		testPausedNode(t, l, guest, pause, limits)
	})
	t.Run("paused/guest", func(t *testing.T) {
		t.Parallel()
		testPausedGuest(t, l, guest, pause, limits)
	})
	t.Run("lengths", func(t *testing.T) {
		t.Parallel()
		testLengths(t, l, guest)
	})
	questions := []time.Duration{30 * time.Second}
	if long() {
		questions = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}
	}
	t.Run("questions", func(t *testing.T) {
		t.Parallel()
		testQuestions(t, l, guest, questions)
	})
}

// plannedRestarts ends and starts an rdsd again and again while the guest sends messages
// to its application, which attaches again, or the other way round. Each message arrives
// once and, but for what we send on several paths, in order.
type plannedRestarts struct {
	addr  string // address of rdsd
	paths int
	times int
	rate  int // messages a second, as far as the sender can
	size  int // octets of a message
	count int // messages between two restarts, at least

	guest bool // sends, not our application
}

// downTime is how long there is no daemon.
const downTime = 500 * time.Millisecond

func (c *plannedRestarts) run(t *testing.T, l *lab, guest *process, addr netip.Addr) {
	ctx, cancel := context.WithTimeout(t.Context(), runTime+time.Duration(c.times)*callTime)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	l.addAddr(t, addr)
	node := l.startApplication(t, addr, c.paths, "--drain", "30s")
	defer func() { node.show(t); guest.show(t) }()
	nPairs := min(c.paths, 4) // so that several paths carry data
	var flows []flow
	for i, f := range pairs(t, guest, node, nPairs, bufferSize) {
		f.stream = peer.Stream{Seed: uint64(100 * i), Count: c.count / nPairs * (c.times + 1), Size: c.size}
		f.rate = c.rate / nPairs
		if !c.guest {
			f.from, f.to = f.to, f.from
			f.anyOrder = c.paths > 1 // none is promised between two generations of ours
		}
		flows = append(flows, f)
	}
	begin := time.Now()
	var work sync.WaitGroup
	all, messages := startAll(t, ctx, flows, &work, fail)
	var before, stops time.Duration
	for i := range c.times {
		if err := arrived(ctx, all, c.count*(i+1)); err != nil {
			t.Fatalf("before restart %d: %v", i, err)
		}
		if i == 0 {
			before = time.Since(begin)
		}
		stop := time.Now()
		if err := node.daemon.quit(); err != nil {
			t.Fatalf("restart %d: %v", i, err)
		}
		stops += time.Since(stop)
		<-time.After(downTime)
		node.daemon.start(t)
	}
	work.Wait()
	must(t, context.Cause(ctx))
	took := time.Since(begin)
	for _, f := range flows {
		must(t, f.quiet(ctx))
	}
	t.Logf("%d messages in %v, %.0f a second before the first of %d restarts: 0 lost, 0 doubled; a stop took %v",
		messages, took.Round(time.Millisecond), float64(messages/(c.times+1))/before.Seconds(), c.times, (stops / time.Duration(c.times)).Round(time.Millisecond))
}

// arrived waits until receivers have so many messages.
func arrived(ctx context.Context, all []running, messages int) error {
	return poll(ctx, func() (bool, error) {
		n := 0
		for _, r := range all {
			p, err := r.recv.Progress(ctx)
			if err != nil {
				return false, err
			}
			if !p.Running {
				p.Messages = int64(r.stream.Count)
			}
			n += int(p.Messages)
		}
		return n >= messages, context.Cause(ctx)
	})
}

// quit ends the daemon in peace.
func (d *daemon) quit() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	return d.cmd.Wait()
}

// smallBuffers is a configuration whose buffers are soon full, and whose paths may pause
// for long.
const smallBuffers = `receive_overrun = 262144
[receive]
stall = "10m"
[sessions]
receive_arena = 1048576
receive_backlog = 65536
[tcp]
receive_buffer = 65536
`

// startLimited starts an rdsd with a configuration and an application of it.
func (l *lab) startLimited(t *testing.T, addr, config string) *process {
	t.Helper()
	a := netip.MustParseAddr(addr)
	l.addAddr(t, a)
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	return l.startApplication(t, a, 1, "--config", file)
}

// testPausedNode has an application of ours not read, for longer than the limit of
// silence, while the guest has messages for it that nothing has room for: the path is
// paused and TCP's window is closed. The connection lives on, and everything arrives.
func testPausedNode(t *testing.T, l *lab, guest *process, pause time.Duration, limits string) {
	ctx, cancel := context.WithTimeout(t.Context(), pause+runTime)
	defer cancel()
	node := l.startLimited(t, "10.77.13.1", smallBuffers+limits)
	defer func() { node.show(t); guest.show(t) }()
	f := flow{from: guest.bind(t, 2*bufferSize, 0), to: node.bind(t, 0, 64<<10)}
	back := flow{from: node.bind(t, bufferSize, bufferSize), to: guest.bind(t, bufferSize, bufferSize), rate: 10}
	warm(t, f)
	conns := node.connections(t, ctx, guest)
	f.stream = peer.Stream{Seed: 8, Count: 10_000, Size: 2048}
	back.stream = peer.Stream{Seed: 9, Count: back.rate * int(pause/time.Second), Size: 100}
	// The guest sends its whole queue, whatever it hears later: have it long.
	must(t, node.daemon.cmd.Process.Signal(syscall.SIGSTOP))
	send, err := f.startSend()
	must(t, err)
	queue := int64(2 * bufferSize / f.stream.Size)
	err = poll(ctx, func() (bool, error) {
		p, err := send.Progress(ctx)
		return p.Messages >= queue, err
	})
	must(t, errors.Join(err, node.daemon.cmd.Process.Signal(syscall.SIGCONT)))
	err = poll(ctx, func() (bool, error) {
		n, err := node.counter(ctx, "recv_paused")
		return n > 0, err
	})
	if err != nil {
		t.Fatalf("no path is paused: %v", err)
	}
	r, err := back.start()
	must(t, err)
	stuck := idle(t, ctx, node, guest, conns, send, pause)
	if taken, err := node.counter(ctx, "recv_queued"); err != nil || taken >= uint64(queue)*3/4 {
		t.Fatalf("%d of %d messages are read, %v", taken, queue, err)
	}
	recv, err := f.startRecv()
	must(t, err)
	for _, r := range []running{{f, send, recv}, r} {
		if _, err := r.wait(ctx); err != nil {
			t.Fatal(err)
		}
		must(t, r.quiet(ctx))
	}
	node.kept(t, ctx, guest, conns)
	t.Logf("%d of %d messages accepted, paused for %v: 0 reconnects, 0 lost, 0 doubled; %d messages the other way",
		stuck, f.stream.Count, pause, back.stream.Count)
}

// testPausedGuest has a program of the guest not read while we send.
func testPausedGuest(t *testing.T, l *lab, guest *process, pause time.Duration, limits string) {
	ctx, cancel := context.WithTimeout(t.Context(), pause+runTime)
	defer cancel()
	node := l.startLimited(t, "10.77.14.1", "[tcp]\n"+limits)
	defer func() { node.show(t); guest.show(t) }()
	f := flow{from: node.bind(t, bufferSize, bufferSize), to: guest.bind(t, bufferSize, 64<<10)}
	warm(t, f)
	conns := node.connections(t, ctx, guest)
	f.stream = peer.Stream{Seed: 10, Count: 20_000, Size: 2048}
	f.try = true // counts refusals
	send, err := f.startSend()
	must(t, err)
	err = poll(ctx, func() (bool, error) {
		p, err := send.Progress(ctx)
		return p.Congested > 0 || !p.Running, err
	})
	if err != nil {
		t.Fatalf("not congested: %v", err)
	}
	stuck := idle(t, ctx, node, guest, conns, send, pause)
	recv, err := f.startRecv()
	must(t, err)
	if _, err := (running{f, send, recv}).wait(ctx); err != nil {
		t.Fatal(err)
	}
	must(t, f.quiet(ctx))
	node.kept(t, ctx, guest, conns)
	t.Logf("%d of %d messages accepted, not read for %v: 0 reconnects, 0 lost, 0 doubled", stuck, f.stream.Count, pause)
}

// idle lets a pause pass in which a sender gets no further, and looks for the connection
// now and then. It returns how many messages the sender has got rid of.
func idle(t *testing.T, ctx context.Context, node, guest *process, conns connections, send *peer.Call, pause time.Duration) int64 {
	t.Helper()
	over := time.After(pause)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	first := int64(-1)
	for {
		select {
		case <-over:
			return first
		case <-tick.C:
		}
		node.kept(t, ctx, guest, conns)
		p, err := send.Progress(ctx)
		switch {
		case err != nil || !p.Running:
			t.Fatalf("nobody reads, and the sender has ended: %+v, %v", p, err)
		case first < 0:
			first = p.Messages
		case p.Messages != first:
			t.Fatalf("nobody reads, and the sender went from message %d to %d", first, p.Messages)
		}
	}
}

// connections are those of a process with a guest, and how many it had lost before them.
type connections struct {
	list []peer.TCPConn
	lost uint64
}

// connections waits until there is one.
func (p *process) connections(t *testing.T, ctx context.Context, guest *process) connections {
	t.Helper()
	list, err := waitConns(ctx, p, guest, 1)
	must(t, err)
	lost, err := p.counter(ctx, "conn_reset")
	must(t, err)
	return connections{list, lost}
}

// kept checks that the connections with a guest are those of before, and that no other
// was made.
func (p *process) kept(t *testing.T, ctx context.Context, guest *process, was connections) {
	t.Helper()
	now, err := p.up(ctx, guest)
	if err != nil || !slices.Equal(now, was.list) {
		t.Fatalf("connections were %v and are %v, %v", was.list, now, err)
	}
	lost, err := p.counter(ctx, "conn_reset")
	if err != nil || lost != was.lost {
		t.Fatalf("%d reconnects, %v", lost-was.lost, err)
	}
}

// counter is one of the stack's statistics.
func (p *process) counter(ctx context.Context, name string) (uint64, error) {
	var all map[string]uint64
	err := p.call(ctx, peer.OpCounters, nil, &all)
	n, ok := all[name]
	if err == nil && !ok {
		err = fmt.Errorf("%s has no counter %q", p.name, name)
	}
	return n, err
}
