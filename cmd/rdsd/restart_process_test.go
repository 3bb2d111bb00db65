//go:build live

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// restarts is two daemons, each with an application of this process that attaches again,
// and a stream of numbered messages from the one to the other.
type restarts struct {
	*testing.T
	wire    string
	rate    int // messages a second
	times   int
	down    time.Duration
	kill    bool
	sending bool                                // the sender's daemon is restarted, not the receiver's
	end     func(r *restarts, s *side, nth int) // ends a daemon in the test's own way
	begin   func(from, to *side)                // called before anything is sent; nil: nothing

	dir    string
	config string        // file; "": none
	hold   time.Duration // between restarts
	port   int
}

type side struct {
	addr   netip.AddrPort
	path   string
	daemon *clitest.Process
	client *rds.Client
	sock   *rds.Socket
}

var restartPort atomic.Uint32 // a port of its own for each test

func (r *restarts) start(s *side) {
	r.Helper()
	r.startWith(s)
}

func (r *restarts) startWith(s *side, more ...string) {
	r.Helper()
	s.daemon = daemonAt(r.T, append(r.args(s), more...)...)
}

// args are those of a side's daemon.
func (r *restarts) args(s *side) []string {
	args := []string{"--listen", s.addr.Addr().String(), "--port", fmt.Sprint(r.port), "--wire", r.wire, "--socket", s.path, "--control", "none"}
	if r.config != "" {
		args = append(args, "--config", r.config)
	}
	return args
}

// configure gives the daemons a configuration, and a directory.
func (r *restarts) configure(text string) {
	r.Helper()
	r.dir = rdstest.Dir(r.T)
	r.config = filepath.Join(r.dir, "rdsd.toml")
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (s *side) kill() {
	s.daemon.Signal(syscall.SIGKILL)
	_ = s.daemon.Wait()
}

func (r *restarts) attach(s *side) {
	r.Helper()
	c, err := rds.NewClient(rds.ClientConfig{Path: s.path, Reconnect: true})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	s.client = c
	if s.sock, err = c.Bind(s.addr); err != nil {
		r.Fatal(err)
	}
	s.sock.SetLinger(0)
}

// tally is what became of each message.
type tally struct {
	mu       sync.Mutex
	received map[uint64]int
	fates    map[uint64]rds.Status
	backward int
	again    int // fates of messages that had one
	last     uint64
	lost     atomic.Int64 // calls that failed with ErrDaemonLost
}

// sides are two hosts that nobody else has.
func (r *restarts) sides() (from, to *side) {
	r.port = 17300 + int(restartPort.Add(1))
	net := fmt.Sprintf("127.23.%d.", r.port-17300)
	from = &side{addr: netip.MustParseAddrPort(net + "5:4000"), path: filepath.Join(r.dir, "from.sock")}
	to = &side{addr: netip.MustParseAddrPort(net + "6:4000"), path: filepath.Join(r.dir, "to.sock")}
	if rand.IntN(2) == 0 { // either may be who connects
		from.addr, to.addr = to.addr, from.addr
	}
	return from, to
}

func (r *restarts) run() {
	from, to := r.sides()
	for _, s := range []*side{from, to} {
		r.start(s)
		r.attach(s)
	}
	if r.begin != nil {
		r.begin(from, to)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &tally{received: make(map[uint64]int), fates: make(map[uint64]rds.Status)}
	var work sync.WaitGroup
	work.Go(func() { t.receive(ctx, to.sock) })
	work.Go(func() { t.receive(ctx, from.sock) }) // fates
	stop := make(chan struct{})
	sent := make(chan uint64, 1)
	work.Go(func() { sent <- t.send(ctx, from.sock, to.addr, r.rate, stop) })

	who := to
	if r.sending {
		who = from
	}
	for i := range r.times {
		<-time.After(r.hold)
		if r.end != nil {
			r.end(r, who, i)
		} else if r.kill {
			who.kill()
		} else {
			who.daemon.Signal(syscall.SIGTERM)
			if status := who.daemon.Wait(); status != 0 {
				r.Fatalf("status %d: %s", status, who.daemon.Stderr)
			}
		}
		<-time.After(r.down)
		r.start(who)
	}
	<-time.After(r.hold)
	close(stop)
	late := time.AfterFunc(time.Minute, cancel)
	total := <-sent
	late.Stop()
	if !r.settled(t, total) {
		r.Logf("receiver's daemon:\n%s\nsender's:\n%s", to.daemon.Stderr, from.daemon.Stderr)
	}
	cancel()
	work.Wait()
	r.judge(t, total)
}

// send sends numbers until it is stopped and returns how many. What a call refuses it
// sends again.
func (t *tally) send(ctx context.Context, s *rds.Socket, to netip.AddrPort, rate int, stop <-chan struct{}) uint64 {
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := uint64(0); ; {
		select {
		case <-stop:
			return i
		case <-tick.C:
		}
		due := uint64(float64(rate) * time.Since(began).Seconds())
		for ; i < due; i++ {
			select {
			case <-stop:
				return i
			default:
			}
			b := make([]byte, 64)
			if i%100 == 99 {
				b = make([]byte, 20_000)
			}
			binary.BigEndian.PutUint64(b, i)
			for {
				err := s.SendMessage(ctx, &rds.Outgoing{To: to, Data: b, Notify: true, Token: i})
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					return i
				}
				if errors.Is(err, rds.ErrDaemonLost) {
					t.lost.Add(1)
				}
			}
		}
	}
}

func (t *tally) receive(ctx context.Context, s *rds.Socket) {
	for ctx.Err() == nil {
		m, err := s.Recv(ctx)
		if err != nil {
			continue // ErrDaemonLost: the next call waits for the next daemon
		}
		t.mu.Lock()
		if m.Kind == rds.KindStatus {
			if _, told := t.fates[m.Token]; told {
				t.again++
			}
			t.fates[m.Token] = m.Status
		} else {
			n := binary.BigEndian.Uint64(m.Data)
			if n < t.last {
				t.backward++
			}
			t.last = n
			t.received[n]++
		}
		t.mu.Unlock()
		m.Release()
	}
}

// settled waits until each message has a fate and has arrived, unless it was dropped, and
// tells whether that happened in time.
func (r *restarts) settled(t *tally, total uint64) bool {
	late := time.After(20 * time.Second)
	for {
		if t.missing(total) <= r.mayLose() {
			return true
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return false
		}
	}
}

// missing is how many messages have ended with success and were not received, or have no
// fate.
func (t *tally) missing(total uint64) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range total {
		if status, told := t.fates[i]; !told {
			return math.MaxInt
		} else if status == rds.StatusSuccess && t.received[i] == 0 {
			n++
		}
	}
	return n
}

// mayLose is how many messages may be lost with success: where the receiver's daemon is
// killed over TCP, those that the kernel had acknowledged and no application had.
func (r *restarts) mayLose() int {
	if !r.kill || r.wire != "tcp" || r.sending {
		return 0
	}
	return r.times * (4 << 20) / 263 // a receive buffer of messages, on the average of their sizes
}

func (r *restarts) judge(t *tally, total uint64) {
	var lost, doubled, reported, silent int
	for i := range total {
		status, told := t.fates[i]
		if !told {
			silent++
		}
		switch n := t.received[i]; {
		case n > 1:
			doubled++
		case n == 1 || !told:
		case status == rds.StatusSuccess:
			lost++
		default:
			reported++
		}
	}
	r.Logf("%d messages: %d lost with Success, %d doubled, %d backward, %d dropped with a fate, %d without; %d calls failed",
		total, lost, doubled, t.backward, reported, silent, t.lost.Load())
	if lost > r.mayLose() || doubled > 0 || silent > 0 || t.again > 0 {
		r.Errorf("PROMISE: %d lost, %d doubled, %d without a fate, %d with several", lost, doubled, silent, t.again)
	}
	if !r.kill && reported > 0 {
		r.Errorf("%d dropped although the stop was planned", reported)
	}
	if total == 0 || len(t.received) == 0 {
		r.Error("no traffic")
	}
}

// A planned restart of either side's daemon loses and doubles nothing, on either wire.
// RDS_LONG=1 has 20 of each, with the daemon down for 1.5 s, also at 50,000 messages a
// second. It takes 8 minutes.
func TestPlannedRestart(t *testing.T) {
	if os.Getenv("RDS_LONG") == "" {
		t.Parallel()
	}
	clitest.NeedLoopback(t)
	r, rates := restarts{times: 2, down: 200 * time.Millisecond, hold: 300 * time.Millisecond}, []int{1000}
	if os.Getenv("RDS_LONG") != "" {
		r, rates = restarts{times: 20, down: 1500 * time.Millisecond, hold: 500 * time.Millisecond}, []int{1000, 50_000}
	}
	r.each(t, []string{"xrc", "tcp"}, rates)
}

// A daemon that is killed, the receiver's or the sender's, costs no message on XRC that its
// sender believes delivered, and over TCP what was in a receive buffer at most. None is
// doubled, and each has one fate. RDS_LONG=1 has 20 of each on XRC, also at 50,000 messages a
// second.
func TestKilledDaemon(t *testing.T) {
	if os.Getenv("RDS_LONG") == "" {
		t.Parallel()
	}
	clitest.NeedLoopback(t)
	r := restarts{times: 2, down: 200 * time.Millisecond, hold: 300 * time.Millisecond, kill: true}
	r.each(t, []string{"xrc", "tcp"}, []int{1000, 20_000})
	if os.Getenv("RDS_LONG") != "" {
		r.times, r.down, r.hold = 20, 500*time.Millisecond, 500*time.Millisecond
		r.each(t, []string{"xrc"}, []int{1000, 50_000})
	}
}

func (r restarts) each(t *testing.T, wires []string, rates []int) {
	for _, wire := range wires {
		for _, rate := range rates {
			for _, sending := range []bool{false, true} {
				x, who := r, "receiver"
				if sending {
					who = "sender"
				}
				t.Run(fmt.Sprintf("%s, %d a second, the %s's", wire, rate, who), func(t *testing.T) {
					if os.Getenv("RDS_LONG") == "" {
						t.Parallel()
					}
					x.T, x.dir, x.wire, x.rate, x.sending = t, rdstest.Dir(t), wire, rate, sending
					x.run()
				})
			}
		}
	}
}

// An application dies with its daemon, and never comes back. What is sent to it on XRC
// waits for the grace time of the next daemon, which is killed within it, too, and is
// refused by the one after that: no message ends with Success.
func TestNobodyComesBack(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	r := restarts{T: t, wire: "xrc"}
	r.configure("grace = \"2s\"\n")
	from, to := r.sides()
	for _, s := range []*side{from, to} {
		r.start(s)
		r.attach(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, from.sock.Send(ctx, to.addr, []byte("first")))
	if _, err := to.sock.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	to.kill()
	_ = to.client.Close()
	from.daemon.Line(from.daemon.Stderr, "path down")
	const each = 50
	sent := uint64(0)
	send := func() {
		for range each {
			must(t, from.sock.SendMessage(ctx, &rds.Outgoing{To: to.addr, Data: make([]byte, 1000), Notify: true, Token: sent}))
			sent++
		}
	}
	send()
	r.start(to)
	for !errors.Is(from.sock.TrySend(to.addr, nil), rds.ErrCongested) { // until the next daemon's grace is known here
		if ctx.Err() != nil {
			t.Fatal("the port is not held back")
		}
		<-time.After(time.Millisecond)
	}
	to.kill()
	r.start(to)
	ends := map[rds.Status]int{}
	for range sent {
		m, err := from.sock.Recv(ctx)
		if err != nil {
			t.Fatalf("%v after %v", err, ends)
		}
		ends[m.Status]++
	}
	t.Log(ends)
	if ends[rds.StatusSuccess] > 0 || ends[rds.StatusRefused] == 0 {
		t.Errorf("fates %v", ends)
	}
}
